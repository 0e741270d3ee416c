"""FastAPI on uvicorn: what people write without a model server."""

from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import plain_json, raw_bytes
from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.setting import CORES, LARGE_WIDE, Setting, Settings


def command(assignment: Assignment, folder: Path) -> list[str]:
    address = ["--host", "127.0.0.1", "--port", str(assignment.http_port)]
    workers = ["--workers", str(assignment.instances)]
    quiet = ["--no-access-log", "--log-level", "warning"]
    loop = ["--loop", "uvloop", "--http", "httptools"]
    return ["uvicorn", "benchmarks.comparisons.peers.fastapi.server:app", *address, *workers, *quiet, *loop]


PEER = Peer(
    name="fastapi",
    title="FastAPI + uvicorn",
    package="fastapi",
    home="https://fastapi.tiangolo.com/",
    set_up=(
        "uvloop and httptools, no access log, one execution a request; the small model in an `async def` (on the "
        "loop), the large ones in a `def` (on its threads); JSON through pydantic models, raw bytes through "
        "`Request.body()`."
    ),
    forms=(plain_json("/predict"), raw_bytes("/bytes")),
    command=command,
    settings=Settings(
        small=(
            Setting(name="1 process"),
            Setting(name=f"{CORES} processes", instances=CORES, connections=frozenset((64,))),
        ),
        large=(Setting(name=f"{CORES} processes × 1 thread", instances=CORES), LARGE_WIDE),
    ),
)

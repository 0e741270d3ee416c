"""MOSEC: Rust at the socket, workers in Python processes."""

from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import plain_json, raw_bytes
from benchmarks.comparisons.peer import PEERS_FOLDER, Peer
from benchmarks.comparisons.setting import LARGE_NARROW, LARGE_WIDE, SMALL_ALONE, Setting, Settings

ROUTE = "/inference"
SETTINGS = Settings(
    small=(
        # Its batches wait for their timer unless they are full, so each number of connections has a size that fits.
        SMALL_ALONE,
        Setting(name="batches of 8", max_batch_size=8, connections=frozenset((8,))),
        Setting(name="batches of 16", max_batch_size=16, connections=frozenset((64,))),
        Setting(name="batches of 64", max_batch_size=64, connections=frozenset((64,))),
    ),
    large=(LARGE_NARROW, LARGE_WIDE),
)


def command(assignment: Assignment, folder: Path) -> list[str]:
    server = str(PEERS_FOLDER / "mosec" / "server.py")
    return ["python", server, "--address", "127.0.0.1", "--port", str(assignment.http_port), "--timeout", "30000"]


PEER = Peer(
    name="mosec",
    title="MOSEC",
    package="mosec",
    home="https://mosecorg.github.io/mosec/",
    set_up=(
        "one route, `append_worker` with the number of workers and the batch size of the setting and 1 ms of waiting "
        "(the least that it takes); raw bytes by its own `serialize` and `deserialize`."
    ),
    forms=(plain_json(ROUTE), raw_bytes(ROUTE)),
    command=command,
    settings=SETTINGS,
    is_form_at_start=True,
)

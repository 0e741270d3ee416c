"""LitServe: FastAPI before worker processes."""

from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import plain_json
from benchmarks.comparisons.peer import PEERS_FOLDER, Peer
from benchmarks.comparisons.setting import SMALL_BATCHES, SMALL_FEW_ALONE, Settings


def command(assignment: Assignment, folder: Path) -> list[str]:
    return ["python", str(PEERS_FOLDER / "litserve" / "server.py")]


PEER = Peer(
    name="litserve",
    title="LitServe",
    package="litserve",
    home="https://lightning.ai/docs/litserve",
    set_up="`batch` and `unbatch`, 1 ms of waiting, `fast_queue=True`, one API server, no access log.",
    forms=(plain_json("/predict"),),
    command=command,
    settings=Settings(small=(SMALL_BATCHES, SMALL_FEW_ALONE)),
)

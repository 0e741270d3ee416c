"""Ray Serve: replicas as Ray actors."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import plain_json
from benchmarks.comparisons.peer import PEERS_FOLDER, Peer
from benchmarks.comparisons.setting import LARGE_NARROW, SMALL_BATCHES, Settings


def command(assignment: Assignment, folder: Path) -> list[str]:
    return ["python", str(PEERS_FOLDER / "ray" / "server.py"), str(folder)]


def variables(assignment: Assignment, folder: Path) -> Mapping[str, str]:
    return {"RAY_USAGE_STATS_ENABLED": "0", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"}


PEER = Peer(
    name="ray",
    title="Ray Serve",
    package="ray",
    home="https://docs.ray.io/en/latest/serve/",
    set_up=(
        "`@serve.batch` where the setting batches, `RAY_SERVE_THROUGHPUT_OPTIMIZED=1`, no access log, no dashboard; "
        "the deployment reads Starlette's request itself. In one setting only, as a start takes "
        "it 20 s and it is far from the best in all."
    ),
    forms=(plain_json("/predict"),),
    command=command,
    variables=variables,
    settings=Settings(small=(SMALL_BATCHES,), large=(LARGE_NARROW,)),
)

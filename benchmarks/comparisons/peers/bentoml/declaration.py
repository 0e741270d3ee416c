"""BentoML: services with adaptive batching."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import batch_json
from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.setting import SMALL_BATCHES, SMALL_FEW_ALONE, Settings


def command(assignment: Assignment, folder: Path) -> list[str]:
    service = "benchmarks.comparisons.peers.bentoml.service:ModelService"
    return ["bentoml", "serve", service, "--host", "127.0.0.1", "--port", str(assignment.http_port)]


def variables(assignment: Assignment, folder: Path) -> Mapping[str, str]:
    return {"BENTOML_DO_NOT_TRACK": "True", "BENTOML_HOME": str(folder)}


PEER = Peer(
    name="bentoml",
    title="BentoML",
    package="bentoml",
    home="https://docs.bentoml.com/",
    set_up="a service of NumPy arrays, `batchable` where the setting batches, no access log, metrics or tracking.",
    forms=(batch_json("/predict"),),
    command=command,
    settings=Settings(small=(SMALL_BATCHES, SMALL_FEW_ALONE)),
    variables=variables,
)

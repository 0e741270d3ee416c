"""MLServer: the Open Inference Protocol in Python."""

import json
from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import GRPC, V2_JSON
from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.setting import CORES, LARGE_WIDE, SMALL_BATCHES, SMALL_FEW_ALONE, Setting, Settings

RUNTIME = "benchmarks.comparisons.peers.mlserver.runtime.ReferenceRuntime"


def prepare(assignment: Assignment, folder: Path) -> None:
    server = {
        "host": "127.0.0.1",
        "http_port": assignment.http_port,
        "grpc_port": assignment.grpc_port,
        "metrics_endpoint": None,
        "parallel_workers": 0,
        "debug": False,
        "grpc_max_message_length": 64 * 2**20,
    }
    batching = assignment.max_batch_size > 1
    model = {
        "name": assignment.model,
        "implementation": RUNTIME,
        "max_batch_size": assignment.max_batch_size if batching else 0,
        "max_batch_time": assignment.delay_ms / 1000 if batching else 0,
    }
    (folder / "settings.json").write_text(json.dumps(server))
    (folder / "model-settings.json").write_text(json.dumps(model))


def command(assignment: Assignment, folder: Path) -> list[str]:
    return ["mlserver", "start", str(folder)]


PEER = Peer(
    name="mlserver",
    title="MLServer",
    package="mlserver",
    home="https://mlserver.readthedocs.io/",
    set_up=(
        "a custom runtime with `NumpyCodec`, `parallel_workers: 0` (with more, 1.7.1 does not start on the uvloop that "
        "pip brings it), no metrics. It answers V2 binary tensors over HTTP with status 500, so that form is missing."
    ),
    forms=(V2_JSON, GRPC),
    command=command,
    prepare=prepare,
    settings=Settings(
        small=(SMALL_BATCHES, SMALL_FEW_ALONE),
        large=(Setting(name=f"1 × {CORES} threads, batches of 4", threads=CORES, max_batch_size=4), LARGE_WIDE),
    ),
)

"""TorchServe: Java at the socket, workers in Python processes."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import plain_json, raw_bytes
from benchmarks.comparisons.peer import PEERS_FOLDER, Peer
from benchmarks.comparisons.peer_environment import FOLDER


def prepare(assignment: Assignment, folder: Path) -> None:
    archive = f"{assignment.model}.mar"
    model = {
        "defaultVersion": True,
        "marName": archive,
        "minWorkers": assignment.instances,
        "maxWorkers": assignment.instances,
        "batchSize": assignment.max_batch_size,
        "maxBatchDelay": assignment.delay_ms,
        "responseTimeout": 120,
    }
    settings = {
        "inference_address": f"http://127.0.0.1:{assignment.http_port}",
        "grpc_inference_port": assignment.grpc_port,
        "management_address": f"http://127.0.0.1:{assignment.other_ports[0]}",
        "metrics_address": f"http://127.0.0.1:{assignment.other_ports[1]}",
        "grpc_management_port": assignment.other_ports[2],
        "disable_token_authorization": "true",
        "disable_system_metrics": "true",
        "model_store": folder,
        "load_models": archive,
        "max_request_size": 64 * 2**20,
        "job_queue_size": 1000,
        "models": json.dumps({assignment.model: {"1.0": model}}),
    }
    (folder / "config.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    archiver = [str(FOLDER / "torchserve" / "bin" / "torch-model-archiver"), "--model-name", assignment.model]
    handler = ["--version", "1.0", "--handler", str(PEERS_FOLDER / "torchserve" / "handler.py")]
    subprocess.run([*archiver, *handler, "--export-path", str(folder)], check=True, stdout=sys.stderr)


def command(assignment: Assignment, folder: Path) -> list[str]:
    words = ["torchserve", "--start", "--foreground", "--ncs", "--model-store", str(folder)]
    return [*words, "--ts-config", str(folder / "config.properties")]


def variables(assignment: Assignment, folder: Path) -> Mapping[str, str]:
    return {"TS_DISABLE_SYSTEM_METRICS": "true", "LOG_LOCATION": str(folder), "METRICS_LOCATION": str(folder)}


PEER = Peer(
    name="torchserve",
    title="TorchServe",
    package="torchserve",
    home="https://pytorch.org/serve/",
    set_up="a handler module, `maxBatchDelay` 1, no system metrics, no token authorization.",
    forms=(plain_json("/predictions/{model}"), raw_bytes("/predictions/{model}")),
    command=command,
    prepare=prepare,
    variables=variables,
    programs=("java",),
)

"""Triton: the server binary that comes inside nvidia-pytriton, with Triton's own Python backend."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import GRPC, V2_BINARY, V2_JSON
from benchmarks.comparisons.peer import PEERS_FOLDER, Peer
from benchmarks.comparisons.peer_environment import FOLDER
from benchmarks.comparisons.setting import LARGE_NARROW, LARGE_WIDE, SMALL_ALONE, SMALL_BATCHES, Settings

SITE = FOLDER / "triton" / "lib" / "python3.11" / "site-packages"
SERVER = SITE / "pytriton" / "tritonserver"
TYPES = {"float32": "TYPE_FP32", "int64": "TYPE_INT64", "uint8": "TYPE_UINT8"}


def prepare(assignment: Assignment, folder: Path) -> None:
    version = folder / "models" / assignment.model / "1"
    version.mkdir(parents=True)
    shutil.copy(PEERS_FOLDER / "triton" / "model.py", version)
    # The backend's child process heeds no PYTHONPATH: it is told by a file beside the model.
    (version / "paths").write_text(f"{PEERS_FOLDER.parents[2]}\n{SITE}\n")
    (version.parent / "config.pbtxt").write_text(model_config(assignment))
    backend = folder / "backends" / "python"
    shutil.copytree(SERVER / "backends" / "python", backend)
    shutil.copy(SERVER / "python_backend_stubs" / "3.11" / "triton_python_backend_stub", backend)


def model_config(assignment: Assignment) -> str:
    def dims(shape: tuple[int, ...]) -> str:
        return f"[ {', '.join(map(str, shape))} ]"

    return f"""\
backend: "python"
max_batch_size: {assignment.max_batch_size}
input [ {{
  name: "{assignment.input_name}" data_type: {TYPES[assignment.input_dtype]} dims: {dims(assignment.input_shape)}
}} ]
output [ {{ name: "{assignment.output_name}" data_type: TYPE_FP32 dims: {dims(assignment.output_shape)} }} ]
instance_group [ {{ count: {assignment.instances} kind: KIND_CPU }} ]
{"dynamic_batching { max_queue_delay_microseconds: 0 }" if assignment.max_batch_size > 1 else ""}
"""


def command(assignment: Assignment, folder: Path) -> list[str]:
    http = ["--http-address=127.0.0.1", f"--http-port={assignment.http_port}", "--http-thread-count=2"]
    grpc = ["--grpc-address=127.0.0.1", f"--grpc-port={assignment.grpc_port}"]
    folders = [f"--model-repository={folder / 'models'}", f"--backend-directory={folder / 'backends'}"]
    return [str(SERVER / "bin" / "tritonserver"), *folders, *http, *grpc, "--allow-metrics=false", "--log-verbose=0"]


def variables(assignment: Assignment, folder: Path) -> Mapping[str, str]:
    return {"LD_LIBRARY_PATH": str(SITE / "nvidia_pytriton.libs")}


PEER = Peer(
    name="triton",
    title="Triton",
    package="nvidia-pytriton",
    home="https://docs.nvidia.com/deeplearning/triton-inference-server/",
    set_up=(
        "the `tritonserver` binary of the wheel and its Python backend, as the wheel has no ONNX Runtime backend; "
        "dynamic batching without delay, two HTTP threads, no metrics."
    ),
    forms=(V2_JSON, V2_BINARY, GRPC),
    command=command,
    prepare=prepare,
    variables=variables,
    settings=Settings(small=(SMALL_BATCHES, SMALL_ALONE), large=(LARGE_NARROW, LARGE_WIDE)),
    python="/usr/bin/python3.11",
)

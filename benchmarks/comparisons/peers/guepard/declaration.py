"""Guepard itself, as it comes: no option but the ports, and the engine that all the others have."""

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import GRPC, PREDICT, V2_BINARY, V2_JSON
from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.setting import DEFAULTS, Settings


def with_engine(engine: str) -> Callable[[Assignment, Path], None]:
    """Writes the configuration: JSON is YAML."""

    def prepare(assignment: Assignment, folder: Path) -> None:
        model = {"name": assignment.model, "path": assignment.file, "engine": engine}
        (folder / "guepard.yaml").write_text(json.dumps({"models": [model]}))

    return prepare


def command(assignment: Assignment, folder: Path) -> list[str]:
    ports = {"--http-port": assignment.http_port, "--grpc-port": assignment.grpc_port}
    ports["--metrics-port"] = assignment.other_ports[0]
    words = [word for option, port in ports.items() for word in (option, str(port))]
    return ["guepard", "serve", "--config", "guepard.yaml", *words]


PEER = Peer(
    name="guepard",
    title="Guepard",
    package="guepard",
    home="../README.md",
    set_up="`guepard serve` with its defaults, but for `engine: onnxruntime`, which all the others have too.",
    forms=(V2_JSON, V2_BINARY, PREDICT, GRPC),
    command=command,
    prepare=with_engine("onnxruntime"),
    settings=Settings(small=(DEFAULTS,), large=(DEFAULTS,)),
    is_own=True,
)

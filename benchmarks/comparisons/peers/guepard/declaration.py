"""Guepard itself, as it comes: no option but the ports."""

from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import GRPC, PREDICT, V2_BINARY, V2_JSON
from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.setting import DEFAULTS, Settings


def command(assignment: Assignment, folder: Path) -> list[str]:
    ports = {"--http-port": assignment.http_port, "--grpc-port": assignment.grpc_port}
    ports["--metrics-port"] = assignment.other_ports[0]
    words = [word for option, port in ports.items() for word in (option, str(port))]
    return ["guepard", "serve", f"{assignment.model}={assignment.file}", *words]


PEER = Peer(
    name="guepard",
    title="Guepard",
    package="guepard",
    home="../README.md",
    set_up="`guepard serve` with its defaults.",
    forms=(V2_JSON, V2_BINARY, PREDICT, GRPC),
    command=command,
    settings=Settings(small=(DEFAULTS,), large=(DEFAULTS,)),
    is_own=True,
)

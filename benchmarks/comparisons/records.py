"""The raw data of a comparison: everything that was seen, in one JSON file."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

FORMAT = "guepard-comparison"
VERSION = 1


class LoadRecord(Struct, frozen=True, kw_only=True):
    """One load of one server, in one form."""

    model: str
    peer: str
    setting: str
    form: str
    kind: str
    connections: int
    turn: int
    requests: int
    """Good answers."""
    failed: int
    requests_per_second: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    is_p99_supported: bool
    """Whether there were requests enough to tell it."""
    cpu_us: float
    """CPU time of the server for each good answer."""
    server_cores: float
    client_cores: float
    other_cores: float
    is_quiet: bool
    rss_bytes: int
    pss_bytes: int
    findings: tuple[str, ...]
    """Codes of what the instrument doubts."""


class StartRecord(Struct, frozen=True, kw_only=True):
    """One start of one server."""

    model: str
    peer: str
    setting: str
    form: str
    """The one that it was started for; "all" where it has them all."""
    turn: int
    start_s: float
    """From the start of the process to the first good answer."""
    idle_rss_bytes: int
    idle_pss_bytes: int
    processes: int


class EngineRecord(Struct, frozen=True, kw_only=True):
    """ONNX Runtime without a server: one session of one thread, run by a thread on each core."""

    model: str
    turn: int
    batch_size: int
    inferences_per_second: float
    is_quiet: bool


class FailureRecord(Struct, frozen=True, kw_only=True):
    """What could not be measured."""

    peer: str
    model: str
    setting: str
    form: str
    reason: str


class PeerRecord(Struct, frozen=True, kw_only=True):
    """A contender as it was: enough for a page, without the code that declares it."""

    name: str
    title: str
    home: str
    set_up: str
    package: str
    versions: dict[str, str]


class Comparison(Struct, frozen=True, kw_only=True):
    format: str = FORMAT
    version: int = VERSION
    environment: dict[str, Any]
    duration_s: float
    """Of one load."""
    turns: int
    connections: tuple[int, ...]
    models: tuple[str, ...]
    is_quick: bool
    wall_s: float
    """Of the whole run."""
    peers: tuple[PeerRecord, ...]
    engine: tuple[EngineRecord, ...]
    starts: tuple[StartRecord, ...]
    loads: tuple[LoadRecord, ...]
    failures: tuple[FailureRecord, ...]


def write(path: Path, comparison: Comparison) -> None:
    """One record a line, so that two files can be compared."""
    document = msgspec.to_builtins(comparison)
    lines = []
    for key, value in document.items():
        if isinstance(value, tuple | list) and value and isinstance(value[0], dict):
            items = ",\n  ".join(_compact(item) for item in value)
            lines.append(f" {_compact(key)}: [\n  {items}\n ]")
        else:
            lines.append(f" {_compact(key)}: {_compact(value)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: Path) -> Comparison:
    """Raises: msgspec.ValidationError for another document or another version."""
    comparison = msgspec.json.decode(path.read_bytes(), type=Comparison)
    if (comparison.format, comparison.version) != (FORMAT, VERSION):
        raise msgspec.ValidationError(f"{path}: it is {comparison.format} {comparison.version}, not {FORMAT} {VERSION}")
    return comparison


def _compact(value: object) -> str:
    return msgspec.json.encode(value).decode()

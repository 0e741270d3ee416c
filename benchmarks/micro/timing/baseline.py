"""What the cases took before, by the kind of interpreter and processor, in one file."""

import json
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.micro.timing.processes import Times
from benchmarks.serving.environment import commit, cpu_model

PATH = Path(__file__).parents[2] / "baselines" / "micro.json"
PACKAGES = ("httptools", "msgspec", "numpy", "onnxruntime", "orjson", "protobuf")
SLOWER = 1.25
"""From here on a case is slower, unless its own noise is larger."""


class Baseline(NamedTuple):
    """Of one case: the median ratio of several processes, the lowest and the highest."""

    ratio: float
    low: float
    high: float

    @property
    def limit(self) -> float:
        """What a case may take now: a quarter more, or twice as much more as its processes differed by then."""
        return max(self.ratio * SLOWER, self.ratio + 2 * (self.high - self.low))


@dataclass(frozen=True, slots=True)
class Baselines:
    """`where` they come from: processor, versions, commit."""

    where: dict[str, Any]
    cases: dict[str, Baseline]


def key() -> str:
    """What baselines are kept apart by: Python's minor version and the processor's architecture."""
    return (
        f"{platform.python_implementation().lower()}-{sys.version_info[0]}.{sys.version_info[1]}-{platform.machine()}"
    )


def here() -> dict[str, Any]:
    return {
        "processor": cpu_model(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "commit": commit(),
    }


def read(path: Path = PATH) -> Baselines | None:
    """The baselines for this interpreter and processor, if there are any."""
    if not path.exists():
        return None
    entry = json.loads(path.read_text()).get(key())
    if entry is None:
        return None
    return Baselines(entry["where"], {name: Baseline(*values) for name, values in entry["cases"].items()})


def update(times: Times, path: Path = PATH) -> None:
    """Keep `times` as the baselines for this interpreter and processor."""
    document = json.loads(path.read_text()) if path.exists() else {}
    cases = {
        name: [round(value, 4) for value in (time.ratio, time.low, time.high)] for name, time in sorted(times.items())
    }
    document[key()] = {"where": here(), "cases": cases}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(document))


def _text(document: dict[str, Any]) -> str:
    """JSON with one case a line, so that a change of one is one line of a diff."""
    entries = []
    for name, entry in sorted(document.items()):
        cases = ",\n".join(f"   {json.dumps(case)}: {json.dumps(values)}" for case, values in entry["cases"].items())
        entries.append(
            f' {json.dumps(name)}: {{\n  "where": {json.dumps(entry["where"])},\n  "cases": {{\n{cases}\n  }}\n }}'
        )
    return "{\n" + ",\n".join(entries) + "\n}\n"


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is not as it was when the baselines were taken, in words; another commit is what the check is for."""
    told = [
        f"{name}: {before.get(name)} then, {now[name]} now"
        for name in ("processor", "python")
        if before.get(name) != now[name]
    ]
    packages = before.get("packages", {})
    told += [
        f"{name}: {packages.get(name)} then, {number} now"
        for name, number in now["packages"].items()
        if packages.get(name) != number
    ]
    return told

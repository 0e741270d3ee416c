"""More contenders: servers of the benchmarks' own, and `guepard serve` with a configuration."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.serving import contender
from benchmarks.serving.contender import Contender, free_ports


@contextmanager
def module(name: str, *arguments: str, prefix: Sequence[str] = ()) -> Iterator[Contender]:
    """`python -m benchmarks.serving.NAME --port PORT ARGUMENTS`, which answers the readiness route."""
    (port,) = free_ports(1)
    command = [*prefix, sys.executable, "-m", f"benchmarks.serving.{name}", "--port", str(port), *arguments]
    with contender.running(name, command, lambda: contender.is_ready(port)) as (pid, started_in_s):
        yield Contender(name, pid, port, started_in_s)


@contextmanager
def configured(models: Sequence[Mapping[str, Any]], *, prefix: Sequence[str] = ()) -> Iterator[Contender]:
    """`guepard serve` with these entries of `models` in its configuration."""
    with TemporaryDirectory(prefix="bench-configuration-") as folder:
        file = Path(folder, "guepard.yaml")
        file.write_text(yaml.safe_dump({"models": [dict(model) for model in models]}))
        with contender.guepard("--config", str(file), prefix=prefix) as server:
            yield server

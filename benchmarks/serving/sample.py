"""One load on one server, with what it cost and how quiet the machine was."""

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.serving.contender import Contender
from benchmarks.serving.load import LoadResult, run_load
from benchmarks.serving.payload import Payload
from benchmarks.serving.process import Observation, observe_quietly


@dataclass(frozen=True, slots=True)
class LoadSample:
    """`side` tells the contenders of a benchmark apart."""

    side: str
    result: LoadResult
    seen: Observation

    @property
    def cpu_us(self) -> float:
        """CPU time of the server per good answer."""
        return self.seen.server_cpu_s / max(1, self.result.requests) * 1e6

    def as_dict(self) -> dict[str, Any]:
        return {"side": self.side, **asdict(self.result), "cpu_us": self.cpu_us, **self.seen.as_dict()}


def sample_load(
    side: str,
    server: Contender,
    payload: Payload,
    connections: int,
    seconds: int,
    client_prefix: tuple[str, ...] = (),
    *,
    steady: bool = False,
) -> LoadSample:
    result, seen = observe_quietly(
        lambda: run_load(server.port, payload, connections, seconds, client_prefix, steady=steady), server.pid
    )
    return LoadSample(side, result, seen)

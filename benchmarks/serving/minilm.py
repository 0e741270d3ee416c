"""How much of the raw engine does a real model keep behind the server? FP32 MiniLM, 128 tokens, binary tensors.

In each round the raw engine (at each batch size) and Guepard (at each number of connections) take turns. A round's
ratio is Guepard's rate over the engine's in the same round, at the batch size that is best over all rounds; the median
of the rounds is told. Nothing is pinned: both sides may use every core, and what wrk takes is Guepard's loss.
"""

import sys
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.models import MINILM
from benchmarks.serving import contender, raw_engine
from benchmarks.serving.effort import Effort
from benchmarks.serving.load import run_load
from benchmarks.serving.payload import binary_payload
from benchmarks.serving.process import Observation, observe_quietly
from benchmarks.serving.report import Answer, Figure, at_least, at_most
from benchmarks.serving.sample import LoadSample, sample_load

BATCH_SIZES = (1, 4, 8)
CONNECTIONS = (8, 32, 64)
BEST_TARGET = at_least(97)
FEW_CONNECTIONS, FEW_TARGET = 8, at_least(90)
WARM_UP_SECONDS = 2


@dataclass(frozen=True, slots=True)
class EngineSample:
    batch_size: int
    inferences_per_second: float
    seen: Observation

    def as_dict(self) -> dict[str, Any]:
        rate = self.inferences_per_second
        return {"side": "engine", "batch_size": self.batch_size, "inferences_per_second": rate, **self.seen.as_dict()}


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of both sides: the engine by batch size, Guepard by number of connections."""

    engine: dict[int, EngineSample]
    served: dict[int, LoadSample]

    def samples(self) -> list[dict[str, Any]]:
        return [one.as_dict() for one in self.engine.values()] + [one.as_dict() for one in self.served.values()]


def measure(effort: Effort) -> Answer:
    payload = binary_payload(MINILM)
    with contender.guepard(f"{MINILM.name}={MINILM.path()}") as server:
        raw_engine.check_answer(MINILM, server.port, payload)
        run_load(server.port, payload, FEW_CONNECTIONS, WARM_UP_SECONDS)
        rounds = []
        for turn in range(effort.rounds):
            print(f"minilm: round {turn + 1}", file=sys.stderr, flush=True)
            this = Round({}, {})
            for batch_size, connections in zip(BATCH_SIZES, CONNECTIONS, strict=True):
                this.engine[batch_size] = sample_engine(batch_size, effort.round_seconds)
                this.served[connections] = sample_load(
                    "guepard", server, payload, connections, effort.round_seconds, steady=True
                )
            rounds.append(this)
    return Answer("minilm", figures(rounds), [sample for each in rounds for sample in each.samples()])


def sample_engine(batch_size: int, seconds: int) -> EngineSample:
    rate, seen = observe_quietly(lambda: raw_engine.measure(MINILM, batch_size, seconds))
    return EngineSample(batch_size, rate, seen)


def figures(rounds: list[Round]) -> list[Figure]:
    engine = {size: median(each.engine[size].inferences_per_second for each in rounds) for size in BATCH_SIZES}
    best_size = max(engine, key=engine.__getitem__)
    told = [Figure(f"MiniLM, raw engine at batch {best_size}", engine[best_size], "inferences/s")]
    percent = {}
    for connections in CONNECTIONS:
        here = [each.served[connections].result for each in rounds]
        percent[connections] = 100 * median(
            result.requests_per_second / each.engine[best_size].inferences_per_second
            for result, each in zip(here, rounds, strict=True)
        )
        at = f"MiniLM, {connections} conn."
        told += [
            Figure(f"{at}, rate", median(result.requests_per_second for result in here), "inferences/s"),
            Figure(f"{at}, p99", median(result.p99_us for result in here) / 1e3, "ms"),
            Figure(
                f"{at}, of the raw engine",
                percent[connections],
                "%",
                FEW_TARGET if connections == FEW_CONNECTIONS else None,
            ),
        ]
    failed = sum(sample.result.errors for each in rounds for sample in each.served.values())
    return [
        *told,
        Figure("MiniLM, best of these", max(percent.values()), "%", BEST_TARGET),
        Figure("MiniLM, failed requests", failed, "", at_most(0)),
    ]

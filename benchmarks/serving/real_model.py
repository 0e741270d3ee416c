"""How much of the raw engine does a real model keep behind the server? Binary tensors; each engine against itself.

MiniLM with 128 tokens, ResNet-50 with an image of 224 x 224; on threads of the server, and in processes of their own.

In each round the raw engine (at each batch size) and Guepard (at each number of connections) take turns. A round's
ratio is Guepard's rate over the engine's in the same round, at the batch size that is best over all rounds; the median
of the rounds is told. Nothing is pinned: both sides may use every core, and what wrk takes is Guepard's loss.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from benchmarks.models import MINILM, MINILM_TORCH, RESNET50, ReferenceModel
from benchmarks.serving import raw_engine
from benchmarks.serving.effort import Effort
from benchmarks.serving.launch import configured
from benchmarks.serving.load import run_load
from benchmarks.serving.payload import binary_payload
from benchmarks.serving.process import Observation, observe_quietly
from benchmarks.serving.report import Answer, Figure, Target, at_least, at_most
from benchmarks.serving.sample import LoadSample, sample_load

BATCH_SIZES = (1, 4, 8)
CONNECTIONS = (8, 32, 64)
FEW_CONNECTIONS = 8
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


@dataclass(frozen=True, slots=True)
class Subject:
    """One model on one engine in one kind of execution, and the least of the engine's rate that it is to keep."""

    question: str
    model: ReferenceModel
    execution: str
    best: Target
    at_few: Target
    engine: str = "onnxruntime"
    precision: str = "f32"

    @property
    def label(self) -> str:
        other = "" if self.engine == "onnxruntime" else f", {self.engine} {self.precision}"
        return f"{self.model.name}{other}, {self.execution}"

    def entry(self) -> dict[str, Any]:
        """Of `models` in the server's configuration."""
        group = {"execution": self.execution}
        where = {"name": self.model.name, "path": str(self.model.path()), "instance_group": group}
        if self.model.suffix == ".pt2":  # a program, which one engine alone executes
            return {**where, "trust": True, "precision": self.precision}
        return {**where, "engine": self.engine, "precision": self.precision}


SUBJECTS = (
    Subject("minilm", MINILM, "thread", at_least(97), at_least(90)),
    Subject("minilm_process", MINILM, "process", at_least(95), at_least(90)),
    Subject("resnet50", RESNET50, "thread", at_least(97), at_least(90)),
    Subject("resnet50_process", RESNET50, "process", at_least(95), at_least(90)),
    Subject("minilm_openvino", MINILM, "thread", at_least(97), at_least(90), "openvino"),
    Subject("resnet50_openvino", RESNET50, "thread", at_least(97), at_least(90), "openvino"),
    Subject("minilm_pytorch", MINILM_TORCH, "thread", at_least(97), at_least(90), "pytorch"),
    Subject("minilm_openvino_bf16", MINILM, "thread", at_least(97), at_least(90), "openvino", "bf16"),
    Subject("resnet50_openvino_bf16", RESNET50, "thread", at_least(97), at_least(90), "openvino", "bf16"),
)
"""Those in BF16 need a CPU that computes in it: elsewhere the server refuses the model, and says so."""


def measure(subject: Subject, effort: Effort) -> Answer:
    model = subject.model
    payload = binary_payload(model)
    with configured([subject.entry()]) as server:
        raw_engine.check_answer(model, server.port, payload, subject.engine, subject.precision)
        run_load(server.port, payload, FEW_CONNECTIONS, WARM_UP_SECONDS)
        rounds = []
        for turn in range(effort.rounds):
            print(f"{subject.label}: round {turn + 1}", file=sys.stderr, flush=True)
            this = Round({}, {})
            for batch_size, connections in zip(BATCH_SIZES, CONNECTIONS, strict=True):
                this.engine[batch_size] = sample_engine(subject, batch_size, effort.round_seconds)
                this.served[connections] = sample_load(
                    "guepard", server, payload, connections, effort.round_seconds, steady=True
                )
            rounds.append(this)
    return Answer(subject.question, figures(subject, rounds), [sample for each in rounds for sample in each.samples()])


QUESTIONS: dict[str, Callable[[Effort], Answer]] = {subject.question: partial(measure, subject) for subject in SUBJECTS}


def sample_engine(subject: Subject, batch_size: int, seconds: int) -> EngineSample:
    rate, seen = observe_quietly(
        lambda: raw_engine.measure(
            subject.model, batch_size, seconds, engine=subject.engine, precision=subject.precision
        )
    )
    return EngineSample(batch_size, rate, seen)


def figures(subject: Subject, rounds: list[Round]) -> list[Figure]:
    engine = {size: median(each.engine[size].inferences_per_second for each in rounds) for size in BATCH_SIZES}
    best_size = max(engine, key=engine.__getitem__)
    told = [
        Figure(
            f"{subject.model.name}, raw {subject.engine} {subject.precision} at batch {best_size}",
            engine[best_size],
            "inferences/s",
        )
    ]
    percent = {}
    for connections in CONNECTIONS:
        here = [each.served[connections].result for each in rounds]
        percent[connections] = 100 * median(
            result.requests_per_second / each.engine[best_size].inferences_per_second
            for result, each in zip(here, rounds, strict=True)
        )
        at = f"{subject.label}, {connections} conn."
        told += [
            Figure(f"{at}, rate", median(result.requests_per_second for result in here), "inferences/s"),
            Figure(f"{at}, p99", median(result.p99_us for result in here) / 1e3, "ms"),
            Figure(
                f"{at}, of the raw engine",
                percent[connections],
                "%",
                subject.at_few if connections == FEW_CONNECTIONS else None,
            ),
        ]
    failed = sum(sample.result.errors for each in rounds for sample in each.served.values())
    return [
        *told,
        Figure(f"{subject.label}, best of these", max(percent.values()), "%", subject.best),
        Figure(f"{subject.label}, failed requests", failed, "", at_most(0)),
    ]

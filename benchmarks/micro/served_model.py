"""`engine/served_model.py`: the way through the engine, with an executor that has its answers ready."""

from time import monotonic_ns

from benchmarks.micro.stage.models import CONFIG, ReadyAnswers, ReadyModel
from benchmarks.micro.stage.requests import request
from benchmarks.micro.stage.scheduler import HandScheduler
from benchmarks.micro.timing.case import Case
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.engine.served_model import ServedModel
from guepard.telemetry.request_trace import UNBOUNDED, RequestTrace, TracePlan


def _case(size: int) -> Case:
    scheduler, executor = HandScheduler(), ReadyAnswers()
    trace = RequestTrace(TracePlan(is_on=False, rate=1, limit=UNBOUNDED))
    served = ServedModel(CONFIG, ReadyModel(), [executor], scheduler, lambda *_: None, 0, trace)
    tensors = request().tensors

    def turn() -> None:
        for _ in range(size):
            served.infer(InferenceRequest(tensors, NOBODY, monotonic_ns()))
        scheduler.turn()

    return Case(f"{size} a turn", turn, size)


def cases() -> list[Case]:
    return [_case(size) for size in (1, 8, 64)]

"""`engine/execution.py`, with an executor that has its answers ready."""

from benchmarks.micro.stage.models import CONFIG, ReadyAnswers
from benchmarks.micro.stage.requests import bound, request
from benchmarks.micro.timing.case import Case
from guepard.batching.dynamic_batcher import Batch
from guepard.core.reasons import ReleaseReason
from guepard.engine.execution import execute
from guepard.engine.signature import Signature


def _case(size: int) -> Case:
    executor = ReadyAnswers()
    requests = bound(Signature(CONFIG), [request() for _ in range(size)])
    batch = Batch(list(requests), size, ReleaseReason.IDLE)
    return Case(f"a batch of {size}", lambda: execute(executor, CONFIG, batch))


def cases() -> list[Case]:
    return [_case(size) for size in (1, 8, 64)]

"""`batching/request_queue.py`."""

from collections.abc import Callable, Sequence

from benchmarks.micro.stage.models import CONFIG
from benchmarks.micro.stage.requests import bound, request
from benchmarks.micro.timing.case import Case
from guepard.batching.request_queue import RequestQueue
from guepard.core.request import InferenceRequest
from guepard.engine.signature import Signature


def _through(requests: Sequence[InferenceRequest]) -> Callable[[], None]:
    queue = RequestQueue()

    def work() -> None:
        for each in requests:
            queue.push(each)
        while queue.count:
            queue.take(queue.oldest_bucket(), 64, 64)

    return work


def cases() -> list[Case]:
    alike, mixed = (bound(Signature(CONFIG), [request() for _ in range(8)]) for _ in range(2))
    for index, each in enumerate(mixed):
        each.batch_key = (index % 4,)
    return [
        Case("8 in, 8 out", _through(alike), 8),
        Case("8 of 4 shapes in, 4 times 2 out", _through(mixed), 8),
    ]

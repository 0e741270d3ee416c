"""`batching/length_sorted.py`: in and out of a queue in which few and many wait."""

from collections.abc import Callable, Sequence

from benchmarks.micro.stage.requests import PADDING, texts
from benchmarks.micro.timing.case import Case
from guepard.batching.length_sorted import LengthSortedQueue
from guepard.core.request import InferenceRequest


def _through(requests: Sequence[InferenceRequest]) -> Callable[[], None]:
    queue = LengthSortedQueue(PADDING)

    def work() -> None:
        for each in requests:
            queue.push(each)
        while queue.count:
            queue.take(queue.oldest_bucket(), 32, 32)

    return work


def cases() -> list[Case]:
    return [Case(f"{size} in and out", _through(texts(size)), size) for size in (8, 256)]

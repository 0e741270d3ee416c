"""`batching/scatter.py`."""

from benchmarks.micro.stage.models import CONFIG, answers
from benchmarks.micro.stage.requests import bound, request
from benchmarks.micro.timing.case import Case
from guepard.batching.scatter import scatter
from guepard.engine.signature import Signature


def _case(size: int, outputs: int = 1) -> Case:
    requests = bound(Signature(CONFIG), [request() for _ in range(size)])
    arrays = [answers(size) for _ in range(outputs)]

    def work() -> None:
        for _ in scatter(requests, arrays):
            pass

    return Case(f"a batch of {size}" + (f", {outputs} outputs" if outputs > 1 else ""), work)


def cases() -> list[Case]:
    return [*[_case(size) for size in (1, 8, 64)], _case(8, outputs=3)]

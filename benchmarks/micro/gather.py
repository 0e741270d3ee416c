"""`batching/gather.py`."""

from benchmarks.micro.stage.models import CONFIG, TOKENS, config
from benchmarks.micro.stage.requests import bound, request, text_request
from benchmarks.micro.timing.case import Case
from guepard.batching.gather import gather
from guepard.engine.signature import Signature


def _case(size: int) -> Case:
    requests = bound(Signature(CONFIG), [request() for _ in range(size)])
    return Case(f"a batch of {size}", lambda: gather(requests))


def cases() -> list[Case]:
    texts = bound(Signature(config(inputs=TOKENS)), [text_request() for _ in range(8)])
    return [*[_case(size) for size in (1, 8, 64)], Case("a batch of 8, 3 inputs", lambda: gather(texts))]

"""`protocols/grpc_request.py`."""

from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.grpc_payload import request_message
from guepard.core.response import NOBODY
from guepard.protocols.grpc_request import RequestReader


def cases() -> list[Case]:
    reader = RequestReader()
    message = request_message(MLP)

    def read() -> None:
        head, whole, spans = reader.read(message)
        head.request(whole, spans, NOBODY, 1_000)

    def read_first() -> None:
        head, whole, spans = RequestReader().read(message)
        head.request(whole, spans, NOBODY, 1_000)

    return [Case("a known head", read), Case("a head never seen before", read_first)]

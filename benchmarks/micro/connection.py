"""`server/http/connection.py`, alone with an endpoint that answers at once, and the whole road behind it.

The whole road: the real router, codec, engine and ONNX Runtime session of the MLP, without the kernel and uvloop. Each
of so many connections brings one request in every turn of the loop.
"""

from collections.abc import Callable, Sequence
from itertools import cycle

from benchmarks.micro.stage.requests import message
from benchmarks.micro.stage.server import connect, context, server
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.payload import binary_payload, json_payload, predict_payload
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.server.http.connection import HttpConnection
from guepard.server.http.endpoint import Body, Buffer, Exchange
from guepard.server.http.request_head import RequestHead
from guepard.server.http.response_writer import JSON_TYPE
from guepard.server.http.router import Route

ANSWER = (b'{"outputs":[0.3818023204803467,0.6181976799150085]}',)


class AtOnce:
    label = "/v2/models/{model}/infer"

    def check(self, head: RequestHead) -> None:
        pass

    def start(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        exchange.reply(200, JSON_TYPE, ANSWER)

    def write(self, head: RequestHead, request: InferenceRequest, response: InferenceResponse) -> tuple[bytes, Body]:
        raise AssertionError("nothing is inferred here")


def turns(connections: Sequence[HttpConnection], messages: Sequence[bytes]) -> Callable[[], None]:
    following, turn = cycle(messages), server().turn

    def work() -> None:
        for connection in connections:
            connection.data_received(next(following))
        turn()

    return work


def road(name: str, messages: Sequence[bytes], size: int) -> Case:
    return Case(f"whole road, {name}, {size} a turn", turns(server().connect(size), messages), size)


def cases() -> list[Case]:
    plain = message(json_payload(MLP))
    # More heads than the memo holds, in a circle: each has been forgotten when it comes again, and is parsed.
    unknown = [plain.replace(b"\r\nHost", b"\r\nX-Turn: %d\r\nHost" % number) for number in range(2_000)]
    others = {
        "V2 JSON, heads never seen before": unknown,
        "V2 binary": [message(binary_payload(MLP))],
        "V1 predict": [message(predict_payload(MLP))],
    }
    at_once = connect(context([Route("POST", AtOnce.label, AtOnce())]), 1)
    return [
        Case("answered at once", turns(at_once, [plain])),
        *[road("V2 JSON", [plain], size) for size in (1, 8, 64)],
        *[road(name, messages, 64) for name, messages in others.items()],
    ]

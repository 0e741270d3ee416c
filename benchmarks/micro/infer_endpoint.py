"""`server/http/infer_endpoint.py`, between a codec that is done already and an engine that only takes."""

from typing import Any, cast

from benchmarks.micro.stage.models import CONFIG, Taken, answers
from benchmarks.micro.stage.requests import executed, request
from benchmarks.micro.timing.case import Case
from guepard.core.response import InferenceResponse
from guepard.engine.data_plane import DataPlane
from guepard.engine.served_model import ServedModel
from guepard.server.http.endpoint import Exchange
from guepard.server.http.infer_endpoint import InferEndpoint
from guepard.server.http.request_head import RequestHead


class ReadyCodec:
    config = CONFIG

    def __init__(self) -> None:
        self._request = request()

    def decode_json(self, *_: Any) -> Any:
        return self._request

    def decode_large(self, *_: Any) -> Any:
        return self._request

    def decode_binary(self, *_: Any) -> Any:
        return self._request

    def encode(self, *_: Any) -> Any:
        return None, (b"{}",)


class Waiting:
    def infer_with(self, *_: Any) -> None:
        pass


def cases() -> list[Case]:
    data_plane = DataPlane()
    data_plane.publish({CONFIG.name: cast(ServedModel, Taken())}, {})
    codec, exchange = ReadyCodec(), cast(Exchange, Waiting())
    endpoint = InferEndpoint("/v2/models/{model}/infer", data_plane, lambda config: codec)
    head = RequestHead("POST", b"/v2/models/mlp/infer", [(b"Content-Type", b"application/json")])
    head.params = {"model": CONFIG.name}
    endpoint.check(head)
    done, response = executed(), InferenceResponse(CONFIG, (answers(1),))
    return [
        Case("a request", lambda: endpoint.start(exchange, head, b"{}", 1_000)),
        Case("an answer", lambda: endpoint.write(head, done, response)),
        Case("a head never seen before", lambda: endpoint.check(head)),
    ]

"""Parts of the HTTP server without a socket, for tests."""

from collections.abc import Callable
from time import monotonic_ns

from guepard.core.errors import GuepardError
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.limits.admission import Admission
from guepard.server.http.context import HttpContext, HttpLimits
from guepard.server.http.endpoint import Body, Buffer, Exchange
from guepard.server.http.message_reader import Message, MessageReader
from guepard.server.http.request_head import RequestHead
from guepard.server.http.router import Route, Router
from guepard.telemetry.access_log import AccessLog
from guepard.telemetry.metrics import MetricsRegistry, ServerGauges

SECOND_NS = 1_000_000_000
MAX_REQUEST_BYTES = 100_000
MAX_INFLIGHT_BYTES = 150_000


class Endpoint:
    """Judges heads by `check`; nothing here is ever started."""

    def __init__(self, label: str, check: Callable[[RequestHead], None] = lambda head: None) -> None:
        self.label = label
        self._check = check

    def check(self, head: RequestHead) -> None:
        self._check(head)

    def start(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        raise NotImplementedError

    def write(self, head: RequestHead, request: InferenceRequest, response: InferenceResponse) -> tuple[bytes, Body]:
        raise NotImplementedError


def http_context(*routes: Route) -> HttpContext:
    gauges = ServerGauges(lambda: 0, lambda: 0, lambda: 0, lambda: 0, lambda: 0)
    return HttpContext(
        Router(routes),
        HttpLimits(MAX_REQUEST_BYTES, 10 * SECOND_NS, 30 * SECOND_NS, 75 * SECOND_NS),
        Admission(MAX_INFLIGHT_BYTES),
        MetricsRegistry("test", [route.endpoint.label for route in routes], gauges),
        AccessLog(1.0, monotonic_ns),
    )


class Reading:
    """A MessageReader and what it has emitted."""

    def __init__(self, context: HttpContext) -> None:
        self.context = context
        self.messages: list[Message] = []
        self.leaves = 0
        self.reader = MessageReader(context, self.messages.append, self._leave)

    def _leave(self) -> None:
        self.leaves += 1

    def feed(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.reader.feed(piece)

    @property
    def bodies(self) -> list[bytes]:
        return [bytes(message.body) for message in self.messages]

    @property
    def refusals(self) -> list[GuepardError | None]:
        return [message.refusal for message in self.messages]

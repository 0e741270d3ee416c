"""Routes that answer with a document: metadata, health, statistics, management. Nothing here is hot."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from guepard.core.errors import ErrorCode, GuepardError, InputError, InternalError
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.protocols.error_body import STATUSES
from guepard.server.http.endpoint import Body, Buffer, Exchange, Pieces
from guepard.server.http.media_type import JSON_TYPES, check_media_type
from guepard.server.http.operation import Operation
from guepard.server.http.request_head import RequestHead
from guepard.server.http.response_writer import JSON_TYPE
from guepard.server.http.router import Route

log = logging.getLogger(__name__)


class Document(NamedTuple):
    """An answer. `content` is written as JSON unless it is bytes, which then need their own `headers`."""

    content: Any
    status: int = 200
    headers: bytes = JSON_TYPE


class DocumentRequest(NamedTuple):
    """`body` is the JSON object that was sent; an empty body counts as an empty one."""

    head: RequestHead
    body: dict[str, Any]

    @property
    def params(self) -> dict[str, str]:
        return self.head.params


Handler = Callable[[DocumentRequest], Document | Awaitable[Document]]


class DocumentEndpoint:
    """Answers by `handler`, a function or a coroutine function. `guard` may refuse a request by its head."""

    def __init__(self, label: str, handler: Handler, guard: Callable[[RequestHead], None] | None = None) -> None:
        self.label = label
        self._handler = handler
        self._guard = guard
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, head: RequestHead) -> None:
        if self._guard is not None:
            self._guard(head)
        if head.method == "POST":
            check_media_type(head, JSON_TYPES)

    def start(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        answer = self._handler(DocumentRequest(head, _object(body)))
        if isinstance(answer, Document):
            _reply(exchange, answer)
            return
        task = asyncio.ensure_future(_answer(exchange, answer, self.label))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def write(
        self, head: RequestHead, request: InferenceRequest, response: InferenceResponse
    ) -> tuple[bytes, Body | Pieces]:
        raise AssertionError("a document route has no inference to answer")


def document_route(
    method: str,
    template: str,
    handler: Handler,
    guard: Callable[[RequestHead], None] | None = None,
    operation: Operation | None = None,
) -> Route:
    if guard is not None and operation is not None:
        operation = replace(operation.refusing(STATUSES[ErrorCode.PERMISSION_DENIED].http), guarded=True)
    return Route(method, template, DocumentEndpoint(template, handler, guard), operation)


async def _answer(exchange: Exchange, answer: Awaitable[Document], label: str) -> None:
    try:
        _reply(exchange, await answer)
    except GuepardError as error:
        exchange.fail_with(error)
    except Exception:
        log.exception("route %s failed", label)
        exchange.fail_with(InternalError("the server failed to answer; its log says why"))


def _reply(exchange: Exchange, document: Document) -> None:
    content = document.content
    body = content if isinstance(content, bytes) else orjson.dumps(content)
    exchange.reply(document.status, document.headers, (body,))


def _object(body: Buffer) -> dict[str, Any]:
    if not body:
        return {}
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InputError(f"request body: not valid JSON ({error})") from None
    if not isinstance(document, dict):
        raise InputError("request body: expected a JSON object")
    return document

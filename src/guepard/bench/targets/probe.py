"""One request before the load: does the target answer, and as it is expected to?"""

import re
from typing import NamedTuple

from guepard.bench.targets.grpc_asker import GrpcAsker
from guepard.bench.targets.http_asker import NOT_READY, HttpAsker, Patience
from guepard.bench.targets.http_exchange import HttpAnswer, exchange
from guepard.bench.targets.model_server import GrpcModelServer, HttpModelServer
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.refusals import grpc_refusal, http_refusal
from guepard.bench.targets.target_question import TENSOR_PROTOCOLS
from guepard.bench.targets.target_refused import TargetRefused
from guepard.bench.targets.target_url import TargetUrl
from guepard.measure.load.event_stream import EventStream, StreamRule

_SHOWN = 200
_NOT_FOUND = 5


_TRIES = 5


class FirstAnswer(NamedTuple):
    """`server`: what it says it is, by OIP or in its Server header. `body_bytes`: of the answer's body or message."""

    server: str | None
    body_bytes: int
    seconds: float


def probe(prepared: PreparedTarget, timeout_s: float = 30.0, wait_ready_s: float = 0.0) -> FirstAnswer:
    """Send the first payload, on a connection of its own; again, up to five times, where a server fails now and then.

    Raises: TargetRefused with the remedy, unless an answer is one that a load would count as a success.
    """
    for _ in range(_TRIES - 1):
        try:
            return _ask(prepared, timeout_s, wait_ready_s)
        except TargetRefused as refused:
            if not refused.may_pass:
                raise
    return _ask(prepared, timeout_s, wait_ready_s)


def _ask(prepared: PreparedTarget, timeout_s: float, wait_ready_s: float) -> FirstAnswer:
    patience = Patience(wait_ready_s)
    if prepared.endpoint.protocol == "grpc":
        return _probe_grpc(prepared, timeout_s, patience)
    payload = prepared.payloads[0].data
    what = f"{payload[: payload.index(b' HTTP/1.1')].decode()} at {prepared.endpoint.host}:{prepared.endpoint.port}"
    answer = patience.ask(
        lambda: exchange(prepared.endpoint, payload, timeout_s), lambda answer: answer.status == NOT_READY
    )
    if not 200 <= answer.status < 300:
        models = _models(prepared, timeout_s) if answer.status == 404 else None
        raise _told_with_shapes(http_refusal(what, answer, models), answer.status in (400, 422, 500), prepared)
    if prepared.reply.events:
        _check_stream(answer, prepared, what)
    elif prepared.reply.expect and not re.search(prepared.reply.expect.encode(), answer.body):
        raise TargetRefused(
            f"{what}: the answer does not hold {prepared.reply.expect!r} (--expect); it begins with {_begin(answer)}"
        )
    return FirstAnswer(prepared.target.server or answer.headers.get("server"), len(answer.body), answer.seconds)


def _probe_grpc(prepared: PreparedTarget, timeout_s: float, patience: Patience) -> FirstAnswer:
    payload = prepared.payloads[0]
    what = f"{payload.path} at {prepared.endpoint.host}:{prepared.endpoint.port}"
    with GrpcAsker(prepared.endpoint, payload.metadata, timeout_s, patience) as asker:
        answer = asker.call(payload.path, payload.data)
        if answer.code != 0:
            models = GrpcModelServer(asker).models() if answer.code == _NOT_FOUND else None
            refusal = grpc_refusal(what, answer.code, answer.details, models)
            raise _told_with_shapes(refusal, answer.code in (3, 13), prepared)
    if prepared.reply.expect and not re.search(prepared.reply.expect.encode(), answer.message):
        raise TargetRefused(f"{what}: the answer does not hold {prepared.reply.expect!r} (--expect)")
    return FirstAnswer(prepared.target.server, len(answer.message), answer.seconds)


def _models(prepared: PreparedTarget, timeout_s: float) -> list[str] | None:
    protocol = prepared.target.protocol
    if protocol not in TENSOR_PROTOCOLS:
        return None
    url = TargetUrl.read(prepared.target.url)
    asker = HttpAsker(url, prepared.endpoint, prepared.headers, timeout_s, Patience(0))
    try:
        return HttpModelServer(asker, prepared.path_prefix, predict=protocol == "predict").models()
    except TargetRefused:
        return None  # what was refused first is the better news


def _told_with_shapes(refusal: TargetRefused, may_be_values: bool, prepared: PreparedTarget) -> TargetRefused:
    """A refusal of values goes on with what was assumed about them."""
    assumed = [note for note in prepared.notes if "--shape" in note]
    if not (may_be_values and assumed):
        return refusal
    return TargetRefused(f"{refusal} ({'; '.join(assumed)})", may_pass=refusal.may_pass)


def _check_stream(answer: HttpAnswer, prepared: PreparedTarget, what: str) -> None:
    """Raises: TargetRefused unless the answer is a whole stream with at least one piece."""
    if "event-stream" not in answer.headers.get("content-type", ""):
        kind = answer.headers.get("content-type", "an untyped body")
        raise TargetRefused(
            f"{what}: no event stream came but {kind}, which begins with {_begin(answer)}; "
            "to measure whole answers say --body '{\"stream\": false}'"
        )
    stream = EventStream(StreamRule(prepared.reply))
    pieces = stream.feed(answer.body)
    if stream.is_broken:
        raise TargetRefused(
            f"{what}: the stream holds an error, it begins with {_begin(answer)}; look into the server's log"
        )
    if not stream.has_last_event:
        raise TargetRefused(f"{what}: the stream ends without {prepared.reply.last_event}; look into the server's log")
    if not pieces:
        raise TargetRefused(
            f"{what}: the stream brings no text, it begins with {_begin(answer)}; is this the right route?"
        )


def _begin(answer: HttpAnswer) -> str:
    return repr(answer.body[:_SHOWN].decode(errors="replace"))

"""What a server's answer other than success means to somebody who wants to measure it, with the remedy."""

import re
from collections.abc import Sequence
from typing import Any

from guepard.bench.targets.http_exchange import HttpAnswer
from guepard.bench.targets.target_refused import TargetRefused
from guepard.measure.load.outcomes import GRPC_BASE, outcome_name
from guepard.protocols.error_body import REASONS

_MAX_TEXT = 400
# What nginx, Apache and Go's server answer to HTTP where they speak TLS.
_WANTS_TLS = re.compile(
    rb"plain HTTP (?:request was sent )?to (?:an )?(?:HTTPS|SSL-enabled)|HTTP request to an HTTPS server"
)
_TAG = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)

_CREDENTIALS = "give credentials with --header 'Authorization: …'"
_WRONG_DATA = "correct the data (--data, --body), or say which shapes to send with --shape"
_NOT_READY = "wait until it is ready, --wait-ready 60s does"
_LOOK = "look into the server's log"

_REMEDIES = {
    400: _WRONG_DATA,
    401: _CREDENTIALS,
    403: f"{_CREDENTIALS}, or let this client in",
    404: "check the path",
    406: "the answer cannot be written in this form; try --protocol oip-binary, or another --header 'Accept: …'",
    408: "raise the server's limit, or send less",
    413: "send less (--batch, --shape, --data), or raise the server's limit",
    415: "say what the body is with --header 'Content-Type: …', or use another --protocol",
    422: _WRONG_DATA,
    429: "it is too busy for a single request: end its other load, or raise its limits",
    501: "use another --protocol",
    503: _NOT_READY,
    504: "raise the model's timeout, or look into why it takes so long",
}

# By gRPC's number. Source: gRPC, "Status codes and their use in gRPC".
_GRPC_REMEDIES = {
    3: _WRONG_DATA,
    4: "raise --timeout, or look into why the model takes so long",
    5: "check the model's name",
    7: f"{_CREDENTIALS}, or let this client in",
    8: "send less (--batch, --shape), end the server's other load, or raise its limits",
    11: _WRONG_DATA,
    12: "is this an inference server's gRPC port? if so, use another --protocol",
    14: _NOT_READY,
    16: _CREDENTIALS,
}


_MAY_PASS = frozenset((2, 8, 13, 14))
"""UNKNOWN, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE."""


def http_refusal(what: str, answer: HttpAnswer, models: Sequence[str] | None = None) -> TargetRefused:
    """The error for an answer that is no 2xx. `what` names the request; `models` are those that the server has."""
    status = answer.status
    if 300 <= status < 400:
        location = answer.headers.get("location")
        to = f"redirects to {location[:_MAX_TEXT]}" if location else "redirects without saying where to"
        return TargetRefused(f"{what}: {status}, {to}; measure that URL, redirects are not followed")
    text = f"{what}: {status} {REASONS.get(status, '')}".rstrip()
    said = server_message(answer)
    if said:
        text += f": {said}"
    remedy = _REMEDIES.get(status, _LOOK if status >= 500 else "correct the request")
    if status == 404 and models:
        remedy = _known(models)
    if status == 400 and _WANTS_TLS.search(answer.body):
        remedy = "write https:// instead of http://"
    if status == 405:
        allowed = answer.headers.get("allow")
        methods = [each.strip() for each in allowed.split(",")] if allowed else []
        remedy = f"use {' or '.join(f'--method {each}' for each in methods)}" if methods else "use another --method"
    return TargetRefused(f"{text}; {remedy}", may_pass=status == 429 or status >= 500)


def grpc_refusal(what: str, code: int, details: str, models: Sequence[str] | None = None) -> TargetRefused:
    """The same for a status of gRPC other than OK."""
    remedy = _known(models) if code == 5 and models else _GRPC_REMEDIES.get(code, _LOOK)
    said = f": {_shortened(details)}" if details else ""
    return TargetRefused(f"{what}: {outcome_name(GRPC_BASE + code)}{said}; {remedy}", may_pass=code in _MAY_PASS)


def server_message(answer: HttpAnswer) -> str:
    """What the server itself says went wrong, on one line; empty if it says nothing.

    Source: OIP's and Triton's `error`, OpenAI's `error.message`, FastAPI's `detail`, TorchServe's `message`.
    """
    document = answer.json()
    if isinstance(document, dict):
        for name in ("error", "detail", "message"):
            if document.get(name):
                return _shortened(_told(document[name]))
    text = answer.body[: 16 * _MAX_TEXT].decode(errors="replace")
    if "html" in answer.headers.get("content-type", ""):
        text = _TAG.sub(" ", text)
    return _shortened(text)


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return _told(value["message"]) if "message" in value else _told(value.get("msg", str(value)))
    if isinstance(value, list):
        return "; ".join(_complaint(item) for item in value[:5])
    return str(value)


def _complaint(item: Any) -> str:
    """One entry of FastAPI's list: where, and what."""
    if isinstance(item, dict) and isinstance(item.get("loc"), list):
        return f"{'.'.join(map(str, item['loc']))}: {item.get('msg', '')}"
    return _told(item)


def _shortened(text: str) -> str:
    text = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def _known(models: Sequence[str]) -> str:
    shown = ", ".join(models[:20]) + (", …" if len(models) > 20 else "")
    return f"the server has {shown}; name one with --model"

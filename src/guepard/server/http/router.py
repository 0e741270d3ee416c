"""From method and path to an endpoint."""

from collections.abc import Iterable
from typing import NamedTuple

from guepard.core.errors import MethodNotAllowed, NotFound
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.server.http.endpoint import Body, Buffer, Endpoint, Exchange, Pieces
from guepard.server.http.operation import Operation
from guepard.server.http.request_head import RequestHead
from guepard.telemetry.metrics import UNMATCHED


class Route(NamedTuple):
    """`template` is a path whose segments in braces match any one segment: `/v2/models/{model}/infer`.

    What stands behind the brace must end the segment, something before it: `/v1/models/{model}:predict`.

    `operation` is what `/openapi.json` says of it; every route of the API port has one.
    """

    method: str
    template: str
    endpoint: Endpoint
    operation: Operation | None = None


class _Unmatched:
    """Stands for requests that no route has, or whose head was never understood."""

    label = UNMATCHED

    def check(self, head: RequestHead) -> None:
        raise NotFound(f"no route {head.path!r}")

    def start(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        self.check(head)

    def write(
        self, head: RequestHead, request: InferenceRequest, response: InferenceResponse
    ) -> tuple[bytes, Body | Pieces]:
        raise AssertionError("an unmatched route has no inference to answer")


_Found = tuple[dict[str, Endpoint], dict[str, str]]

_MAX_KNOWN = 1_024
_MAX_KNOWN_PATH = 512  # longer ones are no model's


class Router:
    """Looks routes up by the number of their segments and by every segment that is not in braces."""

    def __init__(self, routes: Iterable[Route], hint: str = "the API begins at /v2") -> None:
        self._hint = hint
        self.unmatched: Endpoint = _Unmatched()
        self.no_head = RequestHead("", b"", [], keep_alive=False)
        self.no_head.endpoint = self.unmatched
        self._templates: dict[int, list[tuple[tuple[str, ...], dict[str, Endpoint]]]] = {}
        self._known: dict[str, _Found] = {}  # paths that were asked for before
        self.labels: set[str] = set()
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        self.labels.add(route.endpoint.label)
        segments = _segments(route.template)
        same_length = self._templates.setdefault(len(segments), [])
        for known, methods in same_length:
            if known == segments:
                methods[route.method] = route.endpoint
                return
        same_length.append((segments, {route.method: route.endpoint}))
        same_length.sort(key=lambda entry: [sum(column) for column in zip(*map(_openness, entry[0]), strict=True)])

    def resolve(self, head: RequestHead) -> Endpoint:
        """The endpoint for `head`, whose `params` are set on the way. Raises: NotFound, MethodNotAllowed.

        Fixed segments win over those in braces, and of these the ones with a tail. HEAD is answered wherever GET is.
        """
        methods, head.params = self._known.get(head.path) or self._find(head.path)
        endpoint = methods.get("GET" if head.method == "HEAD" else head.method)
        if endpoint is None:
            allowed = ", ".join(sorted(methods.keys() | ({"HEAD"} if "GET" in methods else set())))
            raise MethodNotAllowed(f"{head.method[:32]} is not allowed here; use {allowed}", allow=allowed)
        return endpoint

    def _find(self, path: str) -> _Found:
        segments = _segments(path)
        for template, methods in self._templates.get(len(segments), ()):
            params = _match(template, segments)
            if params is not None:
                if len(path) <= _MAX_KNOWN_PATH:
                    if len(self._known) >= _MAX_KNOWN:
                        self._known.clear()
                    self._known[path] = (methods, params)
                return methods, params
        raise NotFound(f"no route {path[:256]!r}; {self._hint}")


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")[1:])


def _openness(segment: str) -> tuple[bool, bool]:
    """Whether a template's segment has a brace, and whether nothing stands behind it."""
    return segment.startswith("{"), segment.startswith("{") and segment.endswith("}")


def _match(template: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    params = {}
    for expected, segment in zip(template, segments, strict=True):
        if expected.startswith("{"):
            name, _, tail = expected[1:].partition("}")
            if tail and (not segment.endswith(tail) or segment == tail):
                return None
            params[name] = segment.removesuffix(tail)
        elif expected != segment:
            return None
    return params

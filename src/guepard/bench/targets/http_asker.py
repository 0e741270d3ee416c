"""Questions to a target over HTTP, with its user's headers, and with patience while it starts."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from guepard.bench.targets.connection import Unreachable
from guepard.bench.targets.header_lines import Headers
from guepard.bench.targets.http_exchange import HttpAnswer, exchange
from guepard.bench.targets.http_request import HttpRequest
from guepard.bench.targets.target_url import TargetUrl
from guepard.measure.load.plan import Endpoint

Answer = TypeVar("Answer")

_PAUSE_S = 0.1
NOT_READY = 503


class Patience:
    """Asks again while the target is not there or not ready, for `wait_s` from now, all questions together."""

    def __init__(self, wait_s: float) -> None:
        self._until = time.monotonic() + wait_s

    def ask(self, question: Callable[[], Answer], is_not_ready: Callable[[Answer], bool]) -> Answer:
        """The first answer of a target that is ready, or its last one when the time is up. Raises: TargetRefused."""
        while True:
            try:
                answer = question()
            except Unreachable:
                if self._is_over():
                    raise
            else:
                if not is_not_ready(answer) or self._is_over():
                    return answer
            time.sleep(_PAUSE_S)

    def _is_over(self) -> bool:
        return time.monotonic() + _PAUSE_S > self._until


class HttpAsker:
    """One target's server. `headers` go with every question, for what guards the target guards its metadata too."""

    def __init__(
        self, url: TargetUrl, endpoint: Endpoint, headers: Headers, timeout_s: float, patience: Patience
    ) -> None:
        self.url = url
        self._endpoint = endpoint
        self._headers = tuple(pair for pair in headers if not pair[0].lower().startswith(("content-", "inference-")))
        self._timeout_s = timeout_s
        self._patience = patience

    def get(self, path: str) -> HttpAnswer:
        """Raises: TargetRefused where no answer comes; every answer is one, whatever its status."""
        return self._ask(HttpRequest("GET", self._at(path), self._headers))

    def post(self, path: str, document: Any) -> HttpAnswer:
        headers = (*self._headers, ("Content-Type", "application/json"))
        return self._ask(HttpRequest("POST", self._at(path), headers, orjson.dumps(document)))

    def _at(self, path: str) -> TargetUrl:
        """With the user's query, which may be what lets the user in."""
        return self.url.at(path, self.url.query)

    def _ask(self, request: HttpRequest) -> HttpAnswer:
        data = request.head() + request.body
        return self._patience.ask(
            lambda: exchange(self._endpoint, data, self._timeout_s), lambda answer: answer.status == NOT_READY
        )

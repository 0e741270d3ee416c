"""One document of a server, read over HTTP within a time."""

from typing import Any

from guepard.bench.server_side.not_told import NotTold
from guepard.bench.targets.header_lines import Headers
from guepard.bench.targets.http_exchange import HttpAnswer, exchange
from guepard.bench.targets.http_request import HttpRequest
from guepard.bench.targets.target_refused import TargetRefused
from guepard.bench.targets.target_url import TargetUrl
from guepard.core.errors import ConfigurationError
from guepard.measure.load.outcomes import outcome_name
from guepard.measure.load.plan import Endpoint


class Page:
    """`headers` go with each request. `endpoint` says how TLS is checked."""

    def __init__(self, url: TargetUrl, endpoint: Endpoint, headers: Headers, timeout_s: float) -> None:
        self.url = url
        self._endpoint = endpoint
        self._request = HttpRequest("GET", url, headers)
        self._timeout_s = timeout_s

    def text(self) -> str:
        """Raises: NotTold."""
        return self._get().body.decode(errors="replace")

    def json(self) -> Any:
        """None for what is no JSON. Raises: NotTold."""
        return self._get().json()

    def _get(self) -> HttpAnswer:
        try:
            answer = exchange(self._endpoint, self._request.head(), self._timeout_s)
        except (TargetRefused, ConfigurationError) as error:
            raise NotTold(f"GET {self.url.shown}: {error}") from None
        if answer.status != 200:
            raise NotTold(f"GET {self.url.shown}: {outcome_name(answer.status)}")
        return answer

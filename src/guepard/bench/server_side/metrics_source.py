"""Where a server's metrics are read: the page that its user names, or one of those where servers have it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from guepard.bench.server_side.metrics_page import MetricsPage
from guepard.bench.server_side.model_counters import from_metrics
from guepard.bench.server_side.not_told import NotTold
from guepard.bench.server_side.page import Page
from guepard.bench.targets.header_lines import Headers
from guepard.bench.targets.target_url import TargetUrl
from guepard.measure.load.plan import Endpoint

_USUAL_PORT = 8_002
"""Of Guepard's and Triton's metrics."""
_ACCEPT = ("Accept", "text/plain; version=0.0.4")


class Place(NamedTuple):
    """`is_sure`: it is the target's own, by its address or because the user says so."""

    page: Page
    is_sure: bool


class MetricsSource:
    """`places` are tried at the first read, and the first that will do is kept.

    One that is not sure does only if it tells of the model, since another server may have the port.
    """

    def __init__(self, places: Sequence[Place], model: str | None, version: str | None) -> None:
        self._places = tuple(places)
        self._model = model
        self._version = version

    def read(self) -> MetricsPage:
        """Raises: NotTold."""
        with ThreadPoolExecutor(max(1, len(self._places)), "metrics") as threads:
            read = [*threads.map(self._try, self._places)]
        for place, found in zip(self._places, read, strict=True):
            if isinstance(found, MetricsPage):
                self._places = (place,)
                return found
        raise NotTold("; ".join(map(str, read)) or "it is not known where the metrics are")

    @property
    def is_sure(self) -> bool:
        return all(place.is_sure for place in self._places)

    @property
    def where(self) -> str:
        return ", ".join(place.page.url.shown for place in self._places)

    def _try(self, place: Place) -> MetricsPage | NotTold:
        try:
            found = MetricsPage(place.page.text())
        except NotTold as reason:
            return reason
        if not found:
            return NotTold(f"GET {place.page.url.shown}: no metrics of Guepard, of Triton or of a process")
        if not place.is_sure and from_metrics(found, self._model, self._version) is None:
            return NotTold(f"GET {place.page.url.shown}: the metrics of another server")
        return found


def named_place(url: str, endpoint: Endpoint, headers: Headers, timeout_s: float) -> Place:
    """What a user names. The target's credentials go along if it is on the target's host and as well protected.

    Raises: ConfigurationError.
    """
    named = TargetUrl.read(url, "--metrics-url")
    if named.host != endpoint.host or (endpoint.tls and not named.tls):
        headers = ()
    at = named.endpoint(ca_file=endpoint.ca_file, insecure=endpoint.insecure)
    return Place(Page(named, at, (_ACCEPT, *headers), timeout_s), is_sure=True)


def usual_places(endpoint: Endpoint, model: str | None, prefix: str, headers: Headers, timeout_s: float) -> list[Place]:
    """HTTP's own port; with a model also the port two above it (one above gRPC's) and the usual one, without TLS."""
    places = []
    if endpoint.protocol == "http":
        own = TargetUrl("https" if endpoint.tls else "http", endpoint.host, endpoint.port, f"{prefix}/metrics")
        places.append(Place(Page(own, endpoint, (_ACCEPT, *headers), timeout_s), is_sure=True))
    if model is not None:
        secrets = () if endpoint.tls else headers  # what is protected on the way to the target stays protected
        for port in dict.fromkeys((endpoint.port + (2 if endpoint.protocol == "http" else 1), _USUAL_PORT)):
            if port != endpoint.port and port < 65_536:
                url = TargetUrl("http", endpoint.host, port, "/metrics")
                page = Page(url, url.endpoint(), (_ACCEPT, *secrets), timeout_s)
                places.append(Place(page, is_sure=False))
    return places

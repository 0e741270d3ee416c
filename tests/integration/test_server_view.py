"""What a server tells of a run: real servers, and servers that tell little, nothing or untruths."""

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import pytest

from guepard.bench.server_view import ServerProbe
from guepard.core.errors import ConfigurationError
from guepard.core.phases import PHASES
from guepard.measure.load.plan import Endpoint
from guepard.measure.results import ServerView
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.grpc_calls import call, infer_message
from tests.services.known_behaviours import EarlyClose, Garbage, Pages, Redirecting, Sleep
from tests.services.known_servers import KnownServer
from tests.services.raw_http import RawClient, infer

STATS = "/v2/models/m/stats"
METRICS = "/metrics"


def endpoint(port: int, protocol: Any = "http") -> Endpoint:
    return Endpoint(protocol=protocol, host="127.0.0.1", port=port)


class Teller:
    """A server of documents that a test changes as it goes; 404 for every other path."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[tuple[str, str | None]] = []
        teller = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                teller.asked.append((self.path, self.headers["Authorization"]))
                page = teller.pages.get(self.path)
                data = (page if isinstance(page, str) else json.dumps(page)).encode()
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> "Teller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def teller() -> Iterator[Teller]:
    with Teller() as teller:
        yield teller


def stats(requests: int, *, executions: int | None = None, hits: int = 0, version: str = "1") -> dict[str, Any]:
    """So many requests: 1 ms in the queue, 2 ms of compute each."""
    part = {"count": requests, "ns": 0}
    inference_stats = {
        "success": part | {"ns": 4_000_000 * requests},
        "queue": part | {"ns": 1_000_000 * requests},
        "compute_infer": part | {"ns": 2_000_000 * requests},
        "cache_hit": {"count": hits, "ns": 0},
        "cache_miss": {"count": requests - hits, "ns": 0},
    }
    return {
        "model_stats": [
            {
                "name": "m",
                "version": version,
                "inference_count": requests,
                "execution_count": requests if executions is None else executions,
                "inference_stats": inference_stats,
            }
        ]
    }


def metrics(requests: int, cpu_s: float, started: float = 1.0, model: str = "m") -> str:
    labels = f'{{model="{model}",version="1"}}'
    return (
        f"guepard_inference_requests_total{labels} {requests}\n"
        f"guepard_inference_queue_duration_seconds_sum{labels} {requests * 0.001}\n"
        f"guepard_inference_encode_duration_seconds_sum{labels} {requests * 0.0005}\n"
        f"process_cpu_seconds_total {cpu_s}\nprocess_start_time_seconds {started}\n"
    )


def seen(
    teller: Teller,
    before: dict[str, Any],
    after: dict[str, Any],
    *,
    requests: int = 100,
    timings: list[bytes | str] | None = None,
    latency_ms: float | None = 5.0,
    **options: Any,
) -> ServerView:
    """The view of a run that moved the pages so."""
    probe = ServerProbe(endpoint(teller.port), **({"model": "m"} | options))
    teller.pages = before
    probe.before()
    teller.pages = after
    probe.after()
    return probe.view(timings or [], latency_ms, requests)


def phases(view: ServerView) -> dict[str, tuple[float, str]]:
    return {phase.name: (round(phase.mean_ms, 6), phase.source) for phase in view.phases}


# a server that tells everything


def test_statistics_and_metrics_of_a_run(teller: Teller) -> None:
    view = seen(
        teller,
        {STATS: stats(1_000, hits=100), METRICS: metrics(1_000, 10.0)},
        {STATS: stats(1_100, executions=1_025, hits=125), METRICS: metrics(1_100, 10.5)},
    )
    assert phases(view) == {
        "decode": (0.0, "metrics"),
        "queue": (1.0, "statistics"),
        "input": (0.0, "statistics"),
        "compute": (2.0, "statistics"),
        "output": (0.0, "statistics"),
        "encode": (0.5, "metrics"),
    }
    assert view.unexplained_ms == pytest.approx(1.5)
    assert view.statistics["success_count"] == 100
    assert view.statistics["success_ms"] == 4.0
    assert (view.batch_size, view.cache_hit_share) == (4.0, 0.25)
    assert view.cpu_us_per_request == pytest.approx(5_000)
    assert view.metrics["guepard_inference_requests_total"] == 100
    assert [*view.unavailable] == ["server-timing"]


def test_headers_come_before_statistics(teller: Teller) -> None:
    timings: list[bytes | str] = [b"queue;dur=2, compute;dur=1.5", "queue;dur=1, compute;dur=1.5", b"queue;dur=no"]
    view = seen(teller, {STATS: stats(0)}, {STATS: stats(100)}, timings=timings)
    assert phases(view)["queue"] == (1.5, "server-timing")
    assert phases(view)["input"] == (0.0, "statistics")
    assert view.unexplained_ms == pytest.approx(2.0)
    assert view.unavailable["server-timing"] == "the header Server-Timing of 1 of 3 answers breaks its grammar"


def test_phases_of_others_are_not_mixed_in(teller: Teller) -> None:
    view = seen(teller, {STATS: stats(0)}, {STATS: stats(300)}, timings=["queue;dur=1"])
    assert phases(view) == {"queue": (1.0, "server-timing")}
    assert "300 requests where this client had 100 answers: others use it too" in view.unavailable["own share"]


def test_foreign_phases_stand_alone_and_their_total_is_one(teller: Teller) -> None:
    view = seen(teller, {STATS: stats(0)}, {STATS: stats(100)}, timings=["db;dur=1, render;dur=1.5, total;dur=3"])
    assert phases(view).keys() == {"db", "render", "total"}
    assert view.unexplained_ms == pytest.approx(2.0)


def test_phases_that_overlap_explain_nothing(teller: Teller) -> None:
    view = seen(teller, {}, {}, timings=["db;dur=4, render;dur=4"])
    assert view.unexplained_ms is None
    assert "3.000 ms more than the mean latency" in view.unavailable["unexplained"]


def test_a_part_of_several_servers_is_said(teller: Teller) -> None:
    view = seen(teller, {STATS: stats(0)}, {STATS: stats(50)})
    assert "50 requests where this client had 100 answers: several servers" in view.unavailable["own share"]


def test_nothing_right_leaves_nothing_unexplained(teller: Teller) -> None:
    view = seen(teller, {STATS: stats(5)}, {STATS: stats(5)}, requests=0, latency_ms=None)
    assert (view.phases, view.unexplained_ms, view.batch_size, view.cpu_us_per_request) == ((), None, None, None)


# servers that tell little, or untruths


def test_a_restart_is_said_and_nothing_computed_across_it(teller: Teller) -> None:
    view = seen(
        teller,
        {STATS: stats(1_000), METRICS: metrics(1_000, 10.0)},
        {STATS: stats(100), METRICS: metrics(100, 1.0, started=9.0)},
    )
    assert "restarted" in view.unavailable["statistics"]
    assert "restarted" in view.unavailable["metrics"]
    assert (view.phases, view.statistics, view.metrics, view.cpu_us_per_request) == ((), {}, {}, None)


def test_a_server_without_any_of_it_is_said_so(teller: Teller) -> None:
    view = seen(teller, {}, {})
    assert "HTTP 404" in view.unavailable["statistics"]
    assert f"http://127.0.0.1:{teller.port}/metrics: HTTP 404" in view.unavailable["metrics"]
    assert view.unavailable.keys() == {"server-timing", "statistics", "metrics"}


def test_any_server_s_process_is_read(teller: Teller) -> None:
    pages = [{METRICS: f"http_requests_total 7\nprocess_cpu_seconds_total {cpu}\n"} for cpu in (1.0, 1.5)]
    view = seen(teller, pages[0], pages[1], model=None)
    assert view.cpu_us_per_request == pytest.approx(5_000)
    assert view.metrics == {"process_cpu_seconds_total": 0.5}
    assert "names none" in view.unavailable["statistics"]


def test_a_version_and_a_prefix_are_part_of_the_path(teller: Teller) -> None:
    path = "/base/v2/models/a%2Fb/versions/3/stats"
    view = seen(teller, {path: stats(0)}, {path: stats(100)}, model="a/b", version="3", prefix="/base")
    assert view.statistics["success_count"] == 100


def test_metrics_where_the_user_says(teller: Teller) -> None:
    with Teller() as other:
        url = f"http://127.0.0.1:{other.port}/prometheus"
        probe = ServerProbe(endpoint(teller.port), model="m", metrics_url=url, headers=(("Authorization", "Bearer x"),))
        other.pages = {"/prometheus": metrics(0, 1.0)}
        probe.before()
        other.pages = {"/prometheus": metrics(100, 1.1)}
        probe.after()
        assert other.asked == [("/prometheus", "Bearer x")] * 2
    assert {authorization for _, authorization in teller.asked} == {"Bearer x"}
    view = probe.view([], 5.0, 100)
    assert phases(view)["encode"] == (0.5, "metrics")
    assert view.cpu_us_per_request == pytest.approx(1_000)


def test_credentials_do_not_go_to_another_host(teller: Teller) -> None:
    with Teller() as other:
        url = f"http://localhost:{other.port}/metrics"
        probe = ServerProbe(endpoint(teller.port), metrics_url=url, headers=(("Authorization", "Bearer x"),))
        probe.before()
        assert other.asked == [("/metrics", None)]


def test_a_metrics_url_that_is_none_is_the_user_s_mistake() -> None:
    with pytest.raises(ConfigurationError, match="--metrics-url"):
        ServerProbe(endpoint(1), metrics_url="ftp://x")


def guessed(teller: Teller, other: Teller, monkeypatch: pytest.MonkeyPatch) -> ServerProbe:
    monkeypatch.setattr("guepard.bench.server_side.metrics_source._USUAL_PORT", other.port)
    return ServerProbe(endpoint(teller.port), model="m")


def test_metrics_are_found_on_the_usual_port(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    with Teller() as other:
        probe = guessed(teller, other, monkeypatch)
        teller.pages, other.pages = {STATS: stats(0)}, {METRICS: metrics(0, 1.0)}
        probe.before()
        teller.pages, other.pages = {STATS: stats(100)}, {METRICS: metrics(100, 1.1)}
        probe.after()
    view = probe.view([], 5.0, 100)
    assert view.metrics["guepard_inference_requests_total"] == 100


@pytest.mark.parametrize(
    ("model", "counted", "reason"),
    [
        ("m", 0, "counts 0 requests where 100 were answered: the metrics of another server"),
        ("n", 100, "another server"),
    ],
)
def test_another_server_on_the_usual_port_is_not_believed(
    teller: Teller, monkeypatch: pytest.MonkeyPatch, model: str, counted: int, reason: str
) -> None:
    with Teller() as other:
        probe = guessed(teller, other, monkeypatch)
        teller.pages, other.pages = {STATS: stats(0)}, {METRICS: metrics(7, 1.0, model=model)}
        probe.before()
        teller.pages, other.pages = {STATS: stats(100)}, {METRICS: metrics(7 + counted, 1.1, model=model)}
        probe.after()
    view = probe.view([], 5.0, 100)
    assert reason in view.unavailable["metrics"]
    assert (view.metrics, view.cpu_us_per_request) == ({}, None)


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (Garbage(), "no answer in HTTP/1.1"),
        (EarlyClose(), "closed before the answer ended"),
        (Redirecting(), "HTTP 307"),
        (Sleep(), "not in the form of Triton's statistics extension"),
        (Pages(pages={STATS: "{"}), "not in the form of Triton's statistics extension"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_strange_servers_raise_nothing(behaviour: Any, reason: str) -> None:
    with KnownServer(behaviour) as server:
        probe = ServerProbe(endpoint(server.port), model="m")
        probe.before()
        probe.after()
    view = probe.view([], None, 0)
    assert reason in view.unavailable["statistics"]
    assert view.unavailable["metrics"]


def test_a_server_that_does_not_answer_costs_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guepard.bench.server_view.READ_S", 0.2)
    with KnownServer(Sleep(ms=60_000)) as server:
        probe = ServerProbe(endpoint(server.port), model="m")
        started = time.monotonic()
        probe.before()
        assert time.monotonic() - started < 10.0
    view = probe.view([], None, 0)
    assert "within 0.2 s" in view.unavailable["statistics"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_server_that_is_gone_raises_nothing(protocol: str) -> None:
    with KnownServer(Sleep()) as server:
        port = server.port
    probe = ServerProbe(endpoint(port, protocol), model="m")
    probe.before()
    view = probe.view([], None, 0)
    assert "connection refused" in view.unavailable["statistics"]


def test_a_server_that_was_not_asked_told_nothing() -> None:
    view = ServerProbe(endpoint(1), model="m").view([], None, 0)
    assert view.unavailable["statistics"] == view.unavailable["metrics"] == "the server was not asked"


# Guepard itself


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    onnx_models.write_model(models / "ident.onnx", onnx_models.identity(dims=("n", 1)))
    return serve(f"ident={models / 'ident.onnx'}")


def over_http(server: RunningServer) -> list[bytes | str]:
    with RawClient(server.http_port) as client:
        return [client.ask(infer([1.0])).headers["server-timing"] for _ in range(40)]


def over_grpc(server: RunningServer) -> list[bytes | str]:
    message = infer_message("ident", "FP32", [1, 1], bytes(4))
    with grpc.insecure_channel(server.grpc_address) as channel:
        answers = [call(channel, message, metadata=[("server-timing", "1")]) for _ in range(40)]
    return [answer.trailing["server-timing"] for answer in answers]


@pytest.mark.parametrize(("protocol", "send"), [("http", over_http), ("grpc", over_grpc)], ids=["HTTP", "gRPC"])
def test_guepard_tells_everything(
    server: RunningServer, protocol: str, send: Callable[[RunningServer], list[bytes | str]]
) -> None:
    port = server.http_port if protocol == "http" else server.grpc_port
    probe = ServerProbe(
        endpoint(port, protocol), model="ident", metrics_url=f"http://127.0.0.1:{server.metrics_port}/metrics"
    )
    probe.before()
    started = time.monotonic()
    timings = send(server)
    latency_ms = 1_000 * (time.monotonic() - started) / len(timings)
    probe.after()
    view = probe.view(timings, latency_ms, len(timings))
    assert view.unavailable == {}
    assert [phase.name for phase in view.phases] == [*PHASES]
    assert {phase.source for phase in view.phases[:-1]} == {"server-timing"}
    assert view.phases[-1].source == "metrics"
    assert view.unexplained_ms is not None
    assert 0 < view.unexplained_ms < latency_ms
    assert view.statistics["success_count"] == view.metrics["guepard_inference_requests_total"] == 40
    assert view.batch_size == 1.0
    assert view.cpu_us_per_request is not None
    assert view.cpu_us_per_request >= 0
    assert view.cache_hit_share is None
    by_statistics = probe.view([], latency_ms, len(timings))
    assert {phase.name for phase in by_statistics.phases if phase.source == "statistics"} == {*PHASES[1:5]}


def test_a_model_that_is_not_there_is_said_over_grpc(server: RunningServer) -> None:
    probe = ServerProbe(endpoint(server.grpc_port, "grpc"), model="absent", version="7")
    probe.before()
    view = probe.view([], None, 0)
    assert "ModelStatistics: gRPC NOT_FOUND" in view.unavailable["statistics"]

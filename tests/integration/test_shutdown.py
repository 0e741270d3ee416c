"""How a server begins and ends: what is answered on the way, and which exit code says so."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from guepard.testing.running_server import Answer, RunningServer
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import (
    LIVE,
    RawClient,
    answers_in,
    bounded,
    chunked,
    gauge,
    infer,
    sleep,
    tensor_body,
    values_of,
)
from tests.services.serve_command import run_serve
from tests.services.waiting import wait_until

PYTHON_MODELS = "tests/services/python_models.py"
SLEEP = f"sleep={PYTHON_MODELS}:Sleep"
INFER = "/v2/models/ident/infer"


@pytest.fixture(scope="module")
def ident(models: Path) -> str:
    return f"ident={write_model(models / 'ident', identity('FP32', ['n', 'm']))}"


def wait_for_executing(server: RunningServer) -> None:
    wait_until(lambda: gauge(server, 'guepard_executing_requests{model="sleep",version="1"}') == 1)


def wait_for_queued(server: RunningServer) -> None:
    wait_until(lambda: gauge(server, 'guepard_queue_depth{model="sleep",version="1"}') == 1)


def ended(server: RunningServer) -> int:
    """The exit code of a server that is ending by itself."""
    return server.process.wait(15.0)


def refuses_connections(server: RunningServer) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", server.http_port)) != 0


# The end


def test_what_was_accepted_is_answered_before_the_end() -> None:
    """One request runs, one waits behind it on its connection, one is queued; an idle connection is closed at once."""
    with RunningServer(SLEEP) as server, RawClient(server.http_port) as idle, RawClient(server.http_port) as busy:
        assert idle.ask(LIVE).status == 200
        busy.send(sleep(600) + sleep(1))
        with RawClient(server.http_port) as queued:
            wait_for_executing(server)
            queued.send(sleep(2))
            wait_for_queued(server)
            server.process.send_signal(signal.SIGTERM)
            with bounded(0.5):
                assert idle.rest() == b""
            wait_until(lambda: refuses_connections(server))
            assert list(answers_in(busy.rest())) == [200, 200]
            answer = queued.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert ended(server) == 0
        assert "stopped" in server.log_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once_and_well(ident: str, number: signal.Signals) -> None:
    with RunningServer(ident) as server, bounded(5.0):
        server.process.send_signal(number)
        assert ended(server) == 0
        assert not [record for record in server.records() if record.get("level") == "error" or "raw" in record]


def test_it_is_not_ready_before_it_stops_to_answer(ident: str) -> None:
    with RunningServer(ident, "--pre-stop-delay", "1s") as server:
        assert server.request("GET", "/v2/health/ready").status == 200
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.request("GET", "/v2/health/ready").status == 503)
        assert server.request("GET", "/v2/health/live").status == 200
        with RawClient(server.http_port) as client:
            assert values_of(client.ask(infer([1.0]))) == [1.0]
            assert values_of(client.ask(infer([2.0]))) == [2.0]
            assert client.rest() == b"", "an idle connection is closed when the drain begins"
        assert ended(server) == 0


def test_a_second_signal_ends_at_once() -> None:
    with RunningServer(SLEEP) as server, RawClient(server.http_port) as client:
        client.send(sleep(20_000))
        wait_for_executing(server)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_record("draining")
        with bounded(2.0):
            server.process.send_signal(signal.SIGTERM)
            assert ended(server) == 1
        assert "exiting at once" in server.log_text()


def test_the_drain_is_bounded() -> None:
    with RunningServer(SLEEP, "--drain-timeout", "200ms") as server, RawClient(server.http_port) as client:
        client.send(sleep(1_500))
        wait_for_executing(server)
        with bounded(1.0):
            server.process.send_signal(signal.SIGTERM)
            assert list(answers_in(client.rest())) == [503]
        assert ended(server) == 0
        assert "cut off" in server.log_text()


def test_a_client_that_sends_half_a_request_does_not_hold_up_the_end(ident: str) -> None:
    with RunningServer(ident) as server, RawClient(server.http_port) as client, bounded(5.0):
        client.send(infer([1.0])[:-4])
        wait_until(lambda: gauge(server, "guepard_inflight_bytes") > 0)
        server.process.send_signal(signal.SIGTERM)
        assert list(answers_in(client.rest())) == [503]
        client.close()
        assert ended(server) == 0


@pytest.mark.parametrize("request_", [infer([1.0]), chunked(INFER, [tensor_body([1.0])])], ids=["length", "chunks"])
def test_an_upload_that_is_under_way_is_taken_in_and_answered(ident: str, request_: bytes) -> None:
    with RunningServer(ident) as server, RawClient(server.http_port) as client:
        client.send(request_[:-8])
        wait_until(lambda: gauge(server, "guepard_inflight_bytes") > 0)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses_connections(server))
        answer = client.ask(request_[-8:])
        assert (values_of(answer), answer.headers["connection"]) == ([1.0], "close")
        assert ended(server) == 0


# While models load


@pytest.fixture
def loading(ident: str) -> Iterator[RunningServer]:
    """A server one of whose models never comes to the end of its load."""
    server = RunningServer(ident, f"never={PYTHON_MODELS}:NeverLoaded")
    try:
        server.wait_for_record("loading for ever")
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def test_a_signal_while_models_load_ends_at_once(loading: RunningServer) -> None:
    with bounded(5.0):
        loading.process.send_signal(signal.SIGTERM)
        assert ended(loading) == 0


# The beginning


def test_a_taken_port_is_said_before_anything_is_loaded(ident: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for option in ("--http-port", "--metrics-port"):
            refused = run_serve(ident, option, str(port))
            assert refused.returncode == 2
            assert f"server.{option[2:].replace('-', '_')}" in refused.stderr
            assert str(port) in refused.stderr
            assert "Traceback" not in refused.stderr
            assert "is ready" not in refused.stderr


def test_an_address_that_is_not_ours_is_refused(ident: str) -> None:
    for host in ("no.such.host.invalid", "192.0.2.1"):
        refused = run_serve(ident, "--host", host)
        assert refused.returncode == 2
        assert host in refused.stderr
        assert "Traceback" not in refused.stderr


FAILS = f"broken={PYTHON_MODELS}:FailsToLoad"


def test_a_model_that_fails_to_load_does_not_stop_the_others(ident: str, models: Path) -> None:
    (models / "damaged.onnx").write_bytes(b"damaged")
    with RunningServer(ident, FAILS, f"damaged={models / 'damaged.onnx'}") as server:
        with RawClient(server.http_port) as client:
            assert values_of(client.ask(infer([1.5]))) == [1.5]
        index: dict[str, dict[str, str]] = {
            entry["name"]: entry for entry in server.request("POST", "/v2/repository/index", b"").json
        }
        assert index["ident"]["state"] == "READY"
        for name, reason in (("broken", "FileNotFoundError"), ("damaged", "not a valid ONNX model")):
            assert index[name]["state"] == "UNAVAILABLE"
            assert reason in index[name]["reason"]
            assert str(models) not in index[name]["reason"]
            for answer in (server.request("GET", f"/v2/models/{name}/ready"), infer_on(server, name)):
                assert (answer.status, answer.json["code"]) == (503, "not_ready")
                assert str(models) not in answer.json["error"]
        readiness = server.request("GET", "/v2/health/ready")
        assert readiness.status == 503
        assert "broken" in readiness.json["error"]
        assert server.request("GET", "/v2/health/live").status == 200


def infer_on(server: RunningServer, name: str) -> Answer:
    return server.infer(name, {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]})


def test_exit_on_error_makes_it_stop_them(ident: str) -> None:
    ended = run_serve(ident, FAILS, "--exit-on-error")
    assert ended.returncode == 1
    assert "broken" in ended.stderr
    assert "is serving on" not in ended.stderr

"""The gRPC port from the first call to the last: how it begins and ends, and what log and metrics say meanwhile."""

import re
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from guepard.core.phases import PHASES
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.grpc_calls import INFER, SERVICE, Metadata, call, infer_message, int_row
from tests.services.onnx_models import double, write_model
from tests.services.raw_http import bounded, gauge
from tests.services.serve_command import run_serve
from tests.services.waiting import wait_until

PYTHON_MODELS = "tests/services/python_models.py"
SLEEP = f"sleep={PYTHON_MODELS}:Sleep"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
MANAGED = [
    (f"{SERVICE}/RepositoryIndex", b""),
    (f"{SERVICE}/RepositoryModelLoad", b"\x12\x06double"),
    (f"{SERVICE}/RepositoryModelUnload", b"\x12\x04nope"),
]
OBSERVED = [(f"{SERVICE}/ModelStatistics", b"")]
OPEN = [
    f"{SERVICE}/{name}" for name in ("ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata")
] + ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List"]


@pytest.fixture(scope="module")
def model(models: Path) -> str:
    return f"double={write_model(models / 'double.onnx', double(1))}"


def float_row(model: str, value: float, **fields: Any) -> bytes:
    return infer_message(model, "FP32", [1, 1], np.float32(value).tobytes(), **fields)


# The end


def test_what_was_accepted_is_answered_before_the_end() -> None:
    """One call runs, one waits behind it, two streams have no end of their own; then nobody new is let in."""
    with RunningServer(SLEEP) as server, ThreadPoolExecutor(2) as pool:
        with grpc.insecure_channel(server.grpc_address) as channel:
            running = pool.submit(call, channel, int_row("sleep", 700, "INT32"))
            wait_until(lambda: gauge(server, 'guepard_executing_requests{model="sleep",version="1"}') == 1)
            queued = pool.submit(call, channel, int_row("sleep", 1, "INT32"))
            wait_until(lambda: gauge(server, 'guepard_queue_depth{model="sleep",version="1"}') == 1)
            watch = channel.unary_stream(WATCH)(b"")
            assert next(watch) == b"\x08\x01"
            reflection = channel.stream_stream(REFLECTION)(endless())
            assert next(reflection)
            server.process.send_signal(signal.SIGTERM)
            for stream in (watch, reflection):
                list(stream)
                assert stream.code() is grpc.StatusCode.OK
            wait_until(lambda: refuses_connections(server.grpc_port))
            with grpc.insecure_channel(server.grpc_address, [("grpc.use_local_subchannel_pool", 1)]) as late:
                assert call(late, int_row("sleep", 1, "INT32")).code == "UNAVAILABLE"
            assert [answer.result().code for answer in (running, queued)] == ["OK", "OK"]
        assert server.process.wait(10.0) == 0
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", server.grpc_port))
        assert is_quiet(server)


def endless() -> Iterator[bytes]:
    """One question, and never the end of them."""
    yield b"\x3a\x00"
    threading.Event().wait(20.0)


def refuses_connections(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) != 0


def is_quiet(server: RunningServer) -> bool:
    """Every line of the log is a record, and none of them is an error."""
    return not [record for record in server.records() if "raw" in record or record.get("level") == "error"]


def test_the_drain_is_bounded() -> None:
    with RunningServer(SLEEP, "--drain-timeout", "200ms") as server, ThreadPoolExecutor(1) as pool:
        with grpc.insecure_channel(server.grpc_address) as channel:
            cut_off = pool.submit(call, channel, int_row("sleep", 1_500, "INT32"))
            wait_until(lambda: gauge(server, 'guepard_executing_requests{model="sleep",version="1"}') == 1)
            server.process.send_signal(signal.SIGTERM)
            with bounded(1.0):
                assert cut_off.result().code == "UNAVAILABLE"
        assert server.process.wait(10.0) == 0


def test_before_the_drain_it_is_not_ready_and_answers(model: str) -> None:
    with RunningServer(model, "--pre-stop-delay", "700ms") as server:
        with grpc.insecure_channel(server.grpc_address) as channel:
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: call(channel, b"", f"{SERVICE}/ServerReady").message == b"")
            assert call(channel, b"", "/grpc.health.v1.Health/Check").message == b"\x08\x02"
            assert call(channel, b"", f"{SERVICE}/ServerLive").message == b"\x08\x01"
            assert call(channel, float_row("double", 2)).code == "OK"
        assert server.process.wait(10.0) == 0


# The beginning


def test_a_name_means_the_same_address_on_both_ports(model: str) -> None:
    """Of `localhost` the library would take the IPv6 address as well, where another program may listen."""
    with RunningServer(model, "--host", "localhost") as server:
        reached = [
            [address for address in ("127.0.0.1", "::1") if is_reached(address, port)]
            for port in (server.http_port, server.grpc_port)
        ]
        assert reached[0] == reached[1]
        assert len(reached[0]) == 1


@pytest.mark.parametrize("beginning", [b"", b"PRI * HTTP/2.0\r\n"])
def test_a_connection_that_does_not_begin_is_closed_in_time(model: str, beginning: bytes) -> None:
    """The library's own bound is two minutes, and a drain waits for what is open."""
    with RunningServer(model, "--header-timeout", "300ms") as server:
        with socket.create_connection(("127.0.0.1", server.grpc_port), 10.0) as connection, bounded(5.0):
            connection.sendall(beginning)
            while connection.recv(4_096):  # the server's own settings come first
                pass
        with grpc.insecure_channel(server.grpc_address) as channel:
            assert call(channel, float_row("double", 2)).code == "OK"


def is_reached(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as attempt:
        return attempt.connect_ex((address, port)) == 0


@pytest.mark.parametrize("option", ["--grpc-port", "--http-port"])
def test_a_taken_port_is_said_before_anything_is_loaded(model: str, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])
        ports = {"--grpc-port": "0", "--http-port": "0", "--metrics-port": "0"} | {option: number}
        refused = run_serve(model, *[word for pair in ports.items() for word in pair])
    assert refused.returncode == 2
    assert f"server.{option[2:].replace('-', '_')}" in refused.stderr
    assert number in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "is ready" not in refused.stderr


def test_without_a_grpc_port_there_is_none(serve: Serve, model: str) -> None:
    server = serve(model, "--grpc-port", "none")
    assert server.grpc_port == 0
    assert server.infer("double", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}).json
    assert gauge(server, "guepard_grpc_calls") == 0


# Who may do what


@pytest.mark.parametrize("anonymous", ["", "manage", "observe"])
def test_beyond_loopback_methods_are_closed_unless_they_are_opened(serve: Serve, model: str, anonymous: str) -> None:
    server = serve(model, "--host", "0.0.0.0", *(["--auth-anonymous", anonymous] if anonymous else []))
    with grpc.insecure_channel(server.grpc_address) as channel:
        for verb, methods in (("manage", MANAGED), ("observe", OBSERVED)):
            for method, message in methods:
                answer = call(channel, message, method)
                if verb == anonymous:
                    assert answer.code in ("OK", "NOT_FOUND")
                else:
                    assert (answer.code, answer.trailing["guepard-code"]) == ("PERMISSION_DENIED", "permission_denied")
                    assert "auth.anonymous" in answer.details
        for method in OPEN:
            message = b"\x0a\x06double" if "/Model" in method else b""
            assert call(channel, message, method).code == "OK", method
        assert call(channel, float_row("double", 1)).code == "OK"


# What is said of each call


@pytest.fixture(scope="module")
def server(serve: Serve, model: str) -> RunningServer:
    return serve(model, SLEEP, f"fail={PYTHON_MODELS}:FailNegative", "--log-sample-rate", "1")


@pytest.fixture(scope="module")
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield channel


def record_of(server: RunningServer, request_id: str) -> dict[str, Any]:
    """The only record of the call with this id."""
    server.wait_for_record(f'"{request_id}"')
    (record,) = [record for record in server.records() if record.get("request_id") == request_id]
    assert (record["logger"], record["method"]) == ("guepard.access", "gRPC")
    return record


def test_a_success_is_told_with_its_phases(server: RunningServer, channel: grpc.Channel) -> None:
    message = float_row("double", 1, id="inner", model_version="1")
    answer = call(channel, message, metadata=[("x-request-id", "outer")])
    assert answer.trailing == {"x-request-id": "outer"}
    record = record_of(server, "outer")
    assert (record["path"], record["status"], record["grpc_code"], record["level"]) == (INFER, 200, "OK", "info")
    assert (record["model"], record["version"], record["inference_id"]) == ("double", "1", "inner")
    assert (record["bytes_in"], record["bytes_out"]) == (len(message), len(answer.message))
    assert tuple(record["phases_ms"]) == PHASES
    assert sum(record["phases_ms"].values()) == pytest.approx(record["duration_ms"], abs=0.5)


def test_the_phases_come_with_the_answer_for_who_asks(channel: grpc.Channel) -> None:
    """As in HTTP's header: those that are over when the answer is written."""
    asks = [("server-timing", "1")]
    answer = call(channel, float_row("double", 1.5), metadata=asks)
    timings = dict(entry.split(";dur=") for entry in answer.trailing["server-timing"].split(", "))
    assert tuple(timings) == PHASES[:-1]
    assert all(float(milliseconds) >= 0 for milliseconds in timings.values())
    assert "server-timing" not in call(channel, float_row("unknown", 1.5), metadata=asks).trailing
    assert not call(channel, float_row("double", 1.5)).trailing


@pytest.mark.parametrize(
    ("method", "message", "grpc_code", "status", "code", "named"),
    [
        (INFER, b"\xff", "INVALID_ARGUMENT", 400, "invalid_argument", None),
        (INFER, float_row("nope", 1), "NOT_FOUND", 404, "not_found", "nope"),
        (INFER, float_row("fail", -1), "INTERNAL", 500, "model_error", "fail"),
        (INFER, int_row("double", 1), "INVALID_ARGUMENT", 400, "invalid_argument", "double"),
        (f"{SERVICE}/ModelMetadata", b"\x0a\x04nope", "NOT_FOUND", 404, "not_found", None),
        (f"{SERVICE}/ModelStreamInfer", b"", "UNIMPLEMENTED", 501, "unsupported", None),
        ("/nothing/there", b"", "UNIMPLEMENTED", 501, "unsupported", None),
        ("/grpc.health.v1.Health/Check", b"\x0a\x04nope", "NOT_FOUND", 404, "not_found", None),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else str(value),
)
def test_an_error_s_answer_and_its_record_share_an_id(
    server: RunningServer,
    channel: grpc.Channel,
    method: str,
    message: bytes,
    grpc_code: str,
    status: int,
    code: str,
    named: str | None,
) -> None:
    answer = call(channel, message, method)
    assert (answer.code, answer.trailing["guepard-code"]) == (grpc_code, code)
    record = record_of(server, answer.trailing["x-request-id"])
    assert (record["path"], record["grpc_code"], record["status"]) == (method, grpc_code, status)
    assert (record["error_code"], record["error_message"]) == (code, answer.details)
    assert record.get("model") == named


def test_a_caller_who_leaves_is_told_too(server: RunningServer, channel: grpc.Channel) -> None:
    future = channel.unary_unary(INFER).future(int_row("sleep", 200, "INT32"), metadata=[("x-request-id", "left")])
    wait_until(lambda: gauge(server, 'guepard_executing_requests{model="sleep",version="1"}') == 1)
    future.cancel()
    record = record_of(server, "left")
    assert (record["grpc_code"], record["status"], record["error_code"]) == ("CANCELLED", 499, "cancelled")
    assert record["model"] == "sleep"
    wait_until(lambda: gauge(server, 'guepard_executing_requests{model="sleep",version="1"}') == 0)


@pytest.mark.parametrize("text", ['x", "level": "error', "{}", "\\", "  spaced  ", "%0A"])
def test_an_id_cannot_forge_a_record(server: RunningServer, channel: grpc.Channel, text: str) -> None:
    metadata: Metadata = [("x-request-id", text)]
    call(channel, b"", f"{SERVICE}/ServerLive", metadata)
    wait_until(lambda: any(record.get("request_id") in (text, text.strip()) for record in server.records()))


Calls = Counter[tuple[str, str]]


def calls_counted(server: RunningServer) -> Calls:
    """gRPC calls by method and status."""
    counted: Calls = Counter()
    for family in text_string_to_metric_families(server.metrics()):
        for sample in family.samples:
            if sample.name == "api_request_duration_seconds_count" and not sample.labels["code"].isdigit():
                counted[sample.labels["route"], sample.labels["code"]] = int(sample.value)
    return counted


@pytest.mark.parametrize(
    ("method", "message", "route", "code"),
    [
        (INFER, float_row("double", 1), INFER, "OK"),
        (INFER, b"\xff", INFER, "INVALID_ARGUMENT"),
        (INFER, float_row("nope", 1), INFER, "NOT_FOUND"),
        (INFER, float_row("fail", -1), INFER, "INTERNAL"),
        (f"{SERVICE}/ServerLive", b"", f"{SERVICE}/ServerLive", "OK"),
        (f"{SERVICE}/RepositoryIndex", b"", f"{SERVICE}/RepositoryIndex", "OK"),
        (f"{SERVICE}/ModelStreamInfer", b"", f"{SERVICE}/ModelStreamInfer", "UNIMPLEMENTED"),
        ("/grpc.health.v1.Health/Check", b"", "/grpc.health.v1.Health/Check", "OK"),
        ("/nothing/there", b"", "unmatched", "UNIMPLEMENTED"),
        ("/inference.GRPCInferenceService/modelinfer", b"", "unmatched", "UNIMPLEMENTED"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else str(value),
)
def test_each_call_is_counted_once(
    server: RunningServer, channel: grpc.Channel, method: str, message: bytes, route: str, code: str
) -> None:
    before = calls_counted(server)
    assert call(channel, message, method).code == code
    assert calls_counted(server) - before == Counter({(route, code): 1})


def test_no_label_takes_what_a_client_makes_up(server: RunningServer, channel: grpc.Channel) -> None:
    """BerriAI/litellm#35666: scanners created one time series for each random URL."""
    for number in range(200):
        assert call(channel, b"", f"/made.up{number}/Method").code == "UNIMPLEMENTED"
    assert not re.search("made.up", server.metrics())


def test_calls_at_once_add_up(server: RunningServer, channel: grpc.Channel) -> None:
    before = calls_counted(server)
    infer = channel.unary_unary(INFER)
    futures = [infer.future(float_row("double", number), timeout=10) for number in range(200)]
    assert all(future.result() for future in futures)
    assert calls_counted(server) - before == Counter({(INFER, "OK"): 200})


def test_nothing_but_records_is_written(server: RunningServer, channel: grpc.Channel) -> None:
    """Neither garbage nor callers who leave make the library write between our lines."""
    with socket.create_connection(("127.0.0.1", server.grpc_port)) as garbage:
        garbage.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
    futures = [channel.unary_unary(INFER).future(int_row("sleep", 1, "INT32")) for _ in range(50)]
    for future in futures:
        future.cancel()
    wait_until(lambda: gauge(server, "guepard_grpc_calls") == 0)
    records = server.records()
    assert not [record for record in records if "raw" in record or record["logger"].startswith(("grpc", "asyncio"))]

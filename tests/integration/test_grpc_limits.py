"""What the gRPC port takes: large messages both ways, bounds that leave the connection usable, compression, metadata.

A message above the bound on requests is refused by the gRPC library, before the server sees it.
"""

import asyncio
import logging
import re
import signal
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, InferInput

from guepard.server.grpc import port
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.grpc_calls import (
    INFER,
    Metadata,
    call,
    exchange,
    http2_call,
    http2_calls,
    http2_data,
    http2_ends,
    infer_message,
    int_row,
)
from tests.services.memory import peak_rss_mib, rss_mib
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import gauge
from tests.services.waiting import wait_until

PYTHON_MODELS = "tests/services/python_models.py"
LIVE = "/inference.GRPCInferenceService/ServerLive"
IMAGE = [1, 640, 640, 3]
MEBIBYTE = 1_048_576

RAW_GOOD = np.array([[1.5, -2.0]], np.float32).tobytes()
GOOD = infer_message("ident", "FP32", [1, 2], RAW_GOOD)


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    """With the default settings."""
    image = write_model(models / "image.onnx", identity("FP32", ["n", 640, 640, 3]))
    ident = write_model(models / "ident.onnx", identity("FP32", ["n", "m"]))
    return serve(f"image={image}", f"ident={ident}", f"sleep={PYTHON_MODELS}:Sleep")


@pytest.fixture(scope="module")
def narrow(serve: Serve, models: Path) -> RunningServer:
    """With small bounds, and answers that are compressed."""
    ident = write_model(models / "ident.onnx", identity("FP32", ["n", "m"]))
    compressing = ("--grpc-infer-response-compression-level", "high")
    return serve(f"ident={ident}", f"sleep={PYTHON_MODELS}:Sleep", "--max-request-bytes", "1MiB", *compressing)


@pytest.fixture(scope="module")
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc_address, [("grpc.max_receive_message_length", -1)]) as channel:
        yield channel


def is_good(channel: grpc.Channel, compression: grpc.Compression | None = None) -> bool:
    answer = call(channel, GOOD, compression=compression)
    return bool(answer.infer.raw_output_contents[0] == RAW_GOOD)


def zeros(mebibytes: int) -> bytes:
    return infer_message("ident", "FP32", [1, mebibytes * MEBIBYTE // 4], bytes(mebibytes * MEBIBYTE))


class TestLargeMessages:
    def test_an_image_passes_both_ways_with_the_settings_that_are_there(self, server: RunningServer) -> None:
        """SeldonIO/MLServer#290: an image of 640 × 640 FP32 exceeds the library's own 4 MiB."""
        array = np.random.default_rng(0).normal(size=IMAGE).astype(np.float32)
        with InferenceServerClient(server.grpc_address) as client:
            given = InferInput("x", IMAGE, "FP32")
            given.set_data_from_numpy(array)
            assert np.array_equal(client.infer("image", [given]).as_numpy("y"), array)

    def test_one_above_the_bound_is_refused_on_a_connection_that_stays(self, narrow: RunningServer) -> None:
        with grpc.insecure_channel(narrow.grpc_address) as channel:
            for compression in (None, grpc.Compression.Gzip, grpc.Compression.Deflate):
                answer = call(channel, zeros(1), compression=compression)
                assert answer.code == "RESOURCE_EXHAUSTED"
                assert "1048576" in answer.details
                assert is_good(channel, compression)
            size = MEBIBYTE - 64
            below = infer_message("ident", "FP32", [1, size // 4], bytes(size))
            assert call(channel, below).code == "OK"

    def test_what_unfolds_is_bounded_by_what_it_becomes(self, narrow: RunningServer) -> None:
        """headroomlabs-ai/headroom#3325: the size limit looked at the compressed length only."""
        before = rss_mib(narrow)
        with grpc.insecure_channel(narrow.grpc_address) as channel:
            answer = call(channel, zeros(200), compression=grpc.Compression.Gzip)
            assert answer.code == "RESOURCE_EXHAUSTED"
            assert is_good(channel)
        assert peak_rss_mib(narrow) - before < 64

    @pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
    def test_compressed_requests_are_read(self, channel: grpc.Channel, compression: grpc.Compression) -> None:
        array = np.arange(20_000, dtype=np.float32)
        message = infer_message("ident", "FP32", [1, array.size], array.tobytes())
        answer = call(channel, message, compression=compression)
        assert answer.infer.raw_output_contents[0] == array.tobytes()


@pytest.mark.parametrize("accepts", [True, False])
def test_answers_are_compressed_for_who_takes_it(narrow: RunningServer, accepts: bool) -> None:
    zeros = infer_message("ident", "FP32", [1, 2_048], bytes(8_192))
    extra = [(b"grpc-accept-encoding", b"identity,deflate,gzip")] if accepts else []
    received = exchange(narrow.grpc_port, http2_call(zeros, extra=extra), b"grpc-status")
    flag, length = http2_data(received)[0], int.from_bytes(http2_data(received)[1:5])
    assert (flag, length < 1_000) == ((1, True) if accepts else (0, False))
    with grpc.insecure_channel(narrow.grpc_address) as channel:
        assert call(channel, zeros).infer.raw_output_contents[0] == bytes(8_192)


def test_the_bytes_in_flight_are_bounded_for_both_front_ends(serve: Serve, models: Path) -> None:
    server = serve(f"sleep={PYTHON_MODELS}:Sleep", "--max-inflight-bytes", "1000")
    with grpc.insecure_channel(server.grpc_address) as channel:
        padded = int_row("sleep", 1_000, "INT32", id="x" * 800)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(call, channel, padded)
            wait_until(lambda: gauge(server, "guepard_inflight_bytes") >= 800)
            answer = call(channel, int_row("sleep", 1, "INT32", id="y" * 300))
            assert (answer.code, answer.trailing["guepard-code"]) == ("RESOURCE_EXHAUSTED", "overloaded")
            assert "max_inflight_bytes" in answer.details
            assert int(answer.trailing["guepard-retry-after-ms"]) >= 1
            assert answer.trailing["grpc-retry-pushback-ms"] == answer.trailing["guepard-retry-after-ms"]
            body = b'{"id": "' + b"y" * 300 + b'"}'
            over_http = server.request("POST", "/v2/models/sleep/infer", body)
            assert (over_http.status, over_http.json["code"]) == (429, "overloaded")
            assert running.result().code == "OK"
        answer = call(channel, int_row("sleep", 1, "INT32", id="x" * 2_000))
        assert (answer.code, answer.trailing["guepard-code"]) == ("RESOURCE_EXHAUSTED", "payload_too_large")
        assert "guepard-retry-after-ms" not in answer.trailing
        assert call(channel, int_row("sleep", 1, "INT32")).code == "OK"
        assert gauge(server, "guepard_inflight_bytes") == 0


def test_clients_may_ask_every_ten_seconds_whether_the_server_is_there() -> None:
    """The library's own rule is every five minutes; it cuts off whoever asks more often."""
    assert port._KEEP_ALIVE["grpc.http2.min_ping_interval_without_data_ms"] < 10_000
    assert port._KEEP_ALIVE["grpc.http2.max_pings_without_data"] == 0
    assert port._KEEP_ALIVE["grpc.keepalive_permit_without_calls"] == 1


def test_no_call_of_a_burst_ends_without_a_status(narrow: RunningServer) -> None:
    """The library's own bound on calls that nobody has looked at yet ends them as CANCELLED."""
    count = 6_000
    calls = http2_calls(count, b"", LIVE.encode())
    narrow.process.send_signal(signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", narrow.grpc_port), 15.0) as connection, ThreadPoolExecutor(1) as pool:
        sending = pool.submit(connection.sendall, calls)
        narrow.process.send_signal(signal.SIGCONT)
        assert http2_ends(iter(lambda: connection.recv(65_536), b""), count) == {"trailers": count}
        sending.result()


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [
        (grpc.aio.InternalError("a fault"), True),
        (grpc.aio.InternalError('Failed "execute_batch": (<SendMessageOperation>,)'), False),  # who left meanwhile
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), False),  # metadata
    ],
)
def test_no_caller_can_fill_the_log_with_errors_of_the_library(error: Exception, is_logged: bool) -> None:
    info = (type(error), error, None)
    record = logging.LogRecord("grpc._cython.cygrpc", logging.ERROR, "", 0, "raised in core", (), info)
    assert bool(logging.getLogger(record.name).filter(record)) is is_logged


# Metadata


@pytest.mark.parametrize(
    ("metadata", "request_id"),
    [
        ([], None),
        ([("x-request-id", "mine")], "mine"),
        ([("x-request-id", "first"), ("x-request-id", "second")], "second"),
        ([("x-request-id", "x" * 8_000)], "x" * 128),
        ([("x-request-id", "~!@ #$%")], "~!@ #$%"),
        ([("x-request-id-bin", b"\xff\0")], None),
        (
            [
                ("some-bin", b"\xff\0\n"),
                ("some-bin", b""),
                ("other", ""),
                ("other", "v" * 8_000),
                ("more", "v" * 40_000),
            ],
            None,
        ),
        ([("guepard-timeout-ms", "5000"), ("guepard-priority", "1"), ("guepard-timeout-ms-bin", b"x")], None),
        ([(f"key-{number}", "v") for number in range(100)], None),
    ],
)
def test_metadata_that_is_odd_disturbs_nobody(
    server: RunningServer, channel: grpc.Channel, metadata: Metadata, request_id: str | None
) -> None:
    answer = call(channel, GOOD, metadata=metadata)
    assert answer.infer.raw_output_contents[0] == RAW_GOOD
    assert answer.trailing.get("x-request-id") == request_id
    if request_id is not None:
        server.wait_for_record(f'"{request_id}"')


def test_metadata_beyond_all_measure_is_refused(channel: grpc.Channel) -> None:
    assert call(channel, GOOD, metadata=[("key", "v" * 100_000)]).code == "RESOURCE_EXHAUSTED"
    assert is_good(channel)


NO_NUMBERS = ["-5", "soon", "nan", "1e3", "", " ", "5 5", "9" * 7_000]


@pytest.mark.parametrize(
    ("key", "text"),
    [(key, text) for key in ("guepard-timeout-ms", "guepard-priority") for text in NO_NUMBERS]
    + [("guepard-timeout-ms", "0")],  # a priority of 0 is the default
)
def test_metadata_that_says_no_number_is_refused(channel: grpc.Channel, key: str, text: str) -> None:
    answer = call(channel, GOOD, metadata=[(key, text)])
    assert (answer.code, answer.trailing["guepard-code"]) == ("INVALID_ARGUMENT", "invalid_argument")
    assert re.match("Guepard-(Timeout-Ms|Priority): expected", answer.details)


@pytest.mark.parametrize("value", [b"a\xffb", "é".encode(), b"a\x01b", b"\n"])
def test_an_id_that_metadata_cannot_carry_comes_back_with_question_marks(server: RunningServer, value: bytes) -> None:
    """Sent back as it came, the library would refuse the whole answer as one of the server's own faults."""
    received = exchange(server.grpc_port, http2_call(GOOD, extra=[(b"x-request-id", value)]), b"x-request-id")
    assert b"grpc-status\x010" in received
    assert b"?" in received[received.index(b"x-request-id") :]


# The connection


def test_a_method_name_that_is_no_text_ends_nothing(serve: Serve, models: Path) -> None:
    """The library ends its server over such a call. Calls inside are answered; the port is there again at once."""
    ident = write_model(models / "ident.onnx", identity("FP32", ["n", "m"]))
    server = serve(f"ident={ident}", f"sleep={PYTHON_MODELS}:Sleep")
    options: Sequence[tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1)]
    for path in (b"/\xff/\xfe", b"\xc3("):
        with grpc.insecure_channel(server.grpc_address, options) as channel, ThreadPoolExecutor(1) as pool:
            running = pool.submit(call, channel, int_row("sleep", 400, "INT32"))
            wait_until(lambda: gauge(server, 'guepard_executing_requests{model="sleep",version="1"}') == 1)
            exchange(server.grpc_port, http2_call(b"", path=path), b"grpc-status")
            with grpc.insecure_channel(server.grpc_address, options) as another:
                grpc.channel_ready_future(another).result(timeout=5)
                wait_until(lambda: call(another, GOOD).code == "OK", timeout_s=5)
                assert is_good(another)
            assert running.result().code == "OK"
    assert server.stop() == 0
    assert not [record for record in server.records() if "raw" in record]


def test_streams_without_end_leave_room_for_others(server: RunningServer, channel: grpc.Channel) -> None:
    """Three hundred follow the health on one connection, and calls on it are still answered."""

    async def act() -> None:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
            calls = [watch(b"") for _ in range(300)]
            assert set(await asyncio.gather(*[call.read() for call in calls])) == {b"\x08\x01"}
            assert await channel.unary_unary(INFER)(GOOD, timeout=5)
            for call in calls:
                call.cancel()

    asyncio.run(act())
    assert is_good(channel)


@pytest.mark.parametrize("datatype", ["FP32", "INT32"])
def test_large_messages_do_not_stay(server: RunningServer, channel: grpc.Channel, datatype: str) -> None:
    """Neither answered nor refused ones wait for the garbage collector."""
    message = infer_message("ident", datatype, [1, 2 * MEBIBYTE], bytes(8 * MEBIBYTE))

    def send(times: int) -> None:
        codes = {call(channel, message).code for _ in range(times)}
        assert codes == {"OK" if datatype == "FP32" else "INVALID_ARGUMENT"}

    send(3)
    before = rss_mib(server)
    send(16)
    assert rss_mib(server) - before < 100  # of the 128 that came, and the 128 that went

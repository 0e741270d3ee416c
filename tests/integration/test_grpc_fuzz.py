"""Bytes of every kind to every method of the gRPC port, and to the port itself: always a clear status, never an end.

Whatever is drawn comes from a fixed seed or is shrunk by hypothesis, so that a failure can be run again.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.grpc_calls import SERVICE, add_input, call, exchange, http2_call, infer_message, set_parameter
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import LIVE, RawClient, assert_alive, gauge, infer
from tests.services.waiting import wait_until

UNARY = [
    *(
        f"{SERVICE}/{name}"
        for name in (
            "ServerLive",
            "ServerReady",
            "ModelReady",
            "ServerMetadata",
            "ModelMetadata",
            "ModelConfig",
            "ModelStatistics",
            "ModelInfer",
            "RepositoryIndex",
            "RepositoryModelLoad",
            "RepositoryModelUnload",
        )
    ),
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/List",
]
REFLECTION = [f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")]

# What is wrong has a clear name; NOT_FOUND and PERMISSION_DENIED are what garbage may mean to a management method.
CLEAR = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "PERMISSION_DENIED"}

examples = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    return serve(f"ident={write_model(models / 'ident', identity('FP32', ['n', 'm']))}")


@pytest.fixture(scope="module")
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield channel


@pytest.fixture(autouse=True)
def well(server: RunningServer, channel: grpc.Channel) -> Iterator[None]:
    """After each test everything answers, nothing is held and no error was logged."""
    yield
    answer = call(channel, infer_message("ident", "FP32", [1, 1], np.float32(1.5).tobytes()), timeout_s=5.0)
    assert answer.infer.raw_output_contents[0] == np.float32(1.5).tobytes()
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 0 and gauge(server, "guepard_grpc_calls") == 0)
    assert_alive(server)
    assert not [record for record in server.records() if "raw" in record]


def is_clear(channel: grpc.Channel, message: bytes, method: str = UNARY[7]) -> None:
    answer = call(channel, message, method)
    assert answer.code in CLEAR, (answer, message)
    assert (answer.code == "OK") == (not answer.details)
    assert (answer.code == "OK") == ("guepard-code" not in answer.trailing)


# Messages built field by field

VARINT, FIXED64, BYTES, START, END, FIXED32 = range(6)


def varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


def tag(field: int, wire: int) -> bytes:
    return varint(field << 3 | wire)


def text(field: int, value: bytes) -> bytes:
    return tag(field, BYTES) + varint(len(value)) + value


numbers = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**31, 2**32, 2**63, 2**64 - 1])
names = st.sampled_from(
    [b"ident", b"x", b"y", b"FP32", b"BYTES", b"INT64", b"", b"1", b"\xff", b"timeout", b"a" * 2_000]
)


def fields(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """One field of any number and wire type, with contents that may or may not be those of its type."""
    number = st.integers(1, 9) | st.sampled_from([0, 16, 2**20, 2**29 - 1])
    return st.one_of(
        st.builds(text, number, inner | names | st.binary(max_size=12)),
        st.builds(lambda field, value: tag(field, VARINT) + varint(value), number, numbers),
        st.builds(lambda field, value: tag(field, FIXED32) + value, number, st.binary(min_size=4, max_size=4)),
        st.builds(lambda field, value: tag(field, FIXED64) + value, number, st.binary(min_size=8, max_size=8)),
        st.builds(lambda field, value: tag(field, START) + value + tag(field, END), number, inner),
        st.builds(lambda field, wire: tag(field, wire), number, st.integers(0, 7)),
        st.builds(lambda field, length: tag(field, BYTES) + varint(length), number, numbers),
    )


anything = st.recursive(
    st.binary(max_size=30), lambda inner: st.lists(fields(inner), max_size=5).map(b"".join), max_leaves=12
)


@examples
@given(message=anything, named=st.booleans())
def test_anything_to_model_infer(channel: grpc.Channel, message: bytes, named: bool) -> None:
    is_clear(channel, text(1, b"ident") + message if named else message)


@examples
@given(message=anything, method=st.sampled_from(UNARY))
def test_anything_to_every_method(channel: grpc.Channel, message: bytes, method: str) -> None:
    is_clear(channel, message, method)


@settings(examples, max_examples=60)
@given(messages=st.lists(anything, min_size=1, max_size=3), method=st.sampled_from(REFLECTION))
def test_anything_to_reflection(channel: grpc.Channel, messages: list[bytes], method: str) -> None:
    stream = channel.stream_stream(method)(iter(messages), timeout=5)
    with suppress(grpc.RpcError):
        assert len(list(stream)) == len(messages)
    assert stream.code().name in {"OK", "INVALID_ARGUMENT"}


@settings(examples, max_examples=60)
@given(message=anything, method=st.sampled_from(["/grpc.health.v1.Health/Watch", f"{SERVICE}/ModelStreamInfer"]))
def test_anything_to_streams(channel: grpc.Channel, message: bytes, method: str) -> None:
    stream = channel.stream_stream(method)(iter([message]), timeout=5)
    with suppress(grpc.RpcError):
        next(stream)
        stream.cancel()
    assert stream.code().name in CLEAR | {"CANCELLED"}


# Good messages, broken


def good_messages() -> list[bytes]:
    plain = infer_message("ident", "FP32", [1, 2], bytes(8))
    request = service_pb2.ModelInferRequest(model_name="ident", model_version="1", id="an id")
    add_input(request, "x", "FP32", [2, 2], typed=[1, 2, 3, 4])
    request.outputs.add(name="y")
    parameters: dict[str, Any] = {"timeout": 5_000_000, "priority": 1, "binary_data_output": False, "half": 0.5}
    for key, value in parameters.items():
        set_parameter(request.parameters[key], value)
    return [plain, request.SerializeToString()]


def mutated(dice: random.Random) -> bytes:
    """A good message with one to four places changed, cut out, doubled or filled with noise."""
    data = bytearray(dice.choice(GOOD))
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        end = min(len(data), at + dice.choice([1, 1, 2, 8, 30]))
        change = dice.randrange(4)
        if change == 0 and at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        elif change == 1:
            del data[at:end]
        elif change == 2:
            data[at:at] = data[at:end]
        else:
            data[at:end] = dice.randbytes(dice.randrange(9))
    return bytes(data)


def truncated(dice: random.Random) -> bytes:
    message = dice.choice(GOOD)
    return message[: dice.randrange(len(message))]


def noise(dice: random.Random) -> bytes:
    return dice.randbytes(dice.choice([1, 2, 9, 60, 3_000]))


GOOD = good_messages()


@pytest.mark.parametrize("kind", [mutated, truncated, noise], ids=lambda kind: kind.__name__)
def test_broken_messages(channel: grpc.Channel, kind: Callable[[random.Random], bytes]) -> None:
    dice = random.Random(kind.__name__)
    for _ in range(500):
        is_clear(channel, kind(dice))


def split_fields(message: bytes) -> list[bytes]:
    """The top-level fields of a good message."""
    found, offset = [], 0
    while offset < len(message):
        length = message[offset + 1]
        assert message[offset] & 7 == BYTES
        assert length < 0x80
        found.append(message[offset : offset + 2 + length])
        offset += 2 + length
    return found


UNKNOWN: Sequence[bytes] = [
    tag(15, VARINT) + varint(2**64 - 1),
    text(2_000, b"later"),
    tag(9, START) + text(1, b"inside") + tag(9, START) + tag(9, END) + tag(9, END),
    tag(12, FIXED32) + b"1234",
    tag(13, FIXED64) + b"12345678",
]


@pytest.mark.parametrize("message", GOOD, ids=["raw", "typed"])
def test_order_and_unknown_fields_change_nothing(channel: grpc.Channel, message: bytes) -> None:
    """Clients of later versions send fields that there are not yet, and any order is right."""
    dice = random.Random("order")
    expected = call(channel, message).message
    assert expected
    for _ in range(50):
        parts = split_fields(message) + dice.sample(UNKNOWN, dice.randrange(3))
        dice.shuffle(parts)
        assert call(channel, b"".join(parts)).message == expected


def test_of_a_field_given_twice_the_last_counts(channel: grpc.Channel) -> None:
    message = GOOD[0]
    expected = call(channel, message).message
    assert call(channel, text(1, b"nope") + text(2, b"9") + text(2, b"") + message).message == expected
    assert call(channel, message + text(1, b"nope")).code == "NOT_FOUND"


@pytest.mark.parametrize("length", [2**31 - 1, 2**32, 2**35, 2**63, 2**64 - 1])
@pytest.mark.parametrize("field", [1, 4, 5, 7, 9])
def test_lengths_beyond_the_message(channel: grpc.Channel, field: int, length: int) -> None:
    is_clear(channel, GOOD[0] + tag(field, BYTES) + varint(length) + b"abc")


def test_groups_without_end(channel: grpc.Channel) -> None:
    for depth in (50, 99, 101, 10_000):
        is_clear(channel, GOOD[0] + tag(9, START) * depth)
        is_clear(channel, GOOD[0] + tag(9, START) * depth + tag(9, END) * depth)


# Bytes that are no gRPC


def test_noise_on_the_port(server: RunningServer) -> None:
    dice = random.Random("port")
    for number in range(100):
        data = dice.randbytes(dice.choice([1, 9, 24, 300, 5_000]))
        if number % 2:
            good = http2_call(GOOD[0])
            at = dice.randrange(24, len(good))
            data = good[:at] + data
        with RawClient(server.grpc_port, timeout_s=5.0) as client:
            try:
                client.send(data)
                client.finish_sending()
                client.rest()
            except ConnectionError:
                continue


@pytest.mark.parametrize("data", [LIVE, infer([1.0]), b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n" * 100])
def test_other_protocols_on_the_port(server: RunningServer, data: bytes) -> None:
    assert b"HTTP/1.1 200" not in exchange(server.grpc_port, data, b"never")


def test_grpc_on_the_http_port(server: RunningServer) -> None:
    received = exchange(server.http_port, http2_call(GOOD[0]), b"never")
    assert received.startswith(b"HTTP/1.1 "), received
    assert received.split(b" ")[1] in (b"400", b"505")
    with grpc.insecure_channel(server.address) as wrong:
        assert call(wrong, GOOD[0]).code == "UNAVAILABLE"


@pytest.mark.parametrize("path", [b"", b"/", b"nothing", b"/a\0b/c", b"/ /", b"/" + b"x" * 5_000, b"/inference/x"])
def test_names_that_are_no_method(server: RunningServer, path: bytes) -> None:
    received = exchange(server.grpc_port, http2_call(b"", path=path), b"guepard-code")
    assert b"grpc-status\x0212" in received  # UNIMPLEMENTED

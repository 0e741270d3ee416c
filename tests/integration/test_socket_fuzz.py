"""Thousands of broken requests: the server answers or closes every time, and stays well.

Everything is drawn from a fixed seed, so that a failure can be run again.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import (
    LIVE,
    RawClient,
    answers_in,
    assert_alive,
    chunked,
    gauge,
    infer,
    message,
    tensor_body,
)
from tests.services.waiting import wait_until

ROUNDS = 2_000  # of each kind
TIME_S = 20.0

INFER = "/v2/models/ident/infer"
BINARY_HEAD = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}]}'
GOOD = [
    LIVE,
    infer([1.0, 2.0]),
    infer([1.0, 2.0], ["Expect: 100-continue", "Guepard-Timeout-Ms: 1000", "X-Request-Id: a"]),
    infer([1.0, 2.0], ["Connection: Upgrade", "Upgrade: h2c"]),
    chunked(INFER, [tensor_body([1.0])[:20], tensor_body([1.0])[20:]], extension=b";a=b", trailer=b"A: b\r\n"),
    message("POST", INFER, BINARY_HEAD + bytes(8), [f"Inference-Header-Content-Length: {len(BINARY_HEAD)}"]),
    message("POST", INFER, bytes(8), ["Inference-Header-Content-Length: 0"]),
    message("POST", "/v2/repository/index", b'{"ready": true}', ["Content-Type: application/json"]),
    message("GET", "/v2/models/ident/versions/1/config?a=%20b"),
    message("HEAD", "/v2/models/stats", version="1.0", headers=["Connection: keep-alive"]),
]
SPICE = [
    *(bytes([byte]) for byte in b"\0\r\n :,;\"'{}[]%/?#\x7f\x80\xff"),
    *(
        b"\r\n",
        b"\r\n\r\n",
        b"\n\n",
        b"0\r\n\r\n",
        b"-1",
        b"+5",
        b"1e309",
        b"NaN",
        b"18446744073709551616",
        b"4294967296",
    ),
    *(b"HTTP/1.1", b"HTTP/2.0", b"PRI * ", b"CONNECT ", b"Content-Length: 5\r\n", b"Content-Length: 99999999999\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Expect: x\r\n", b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b"Host: a\r\n"),
    *(
        b"null",
        b"true",
        b"[[[[",
        b'"shape"',
        b"\\u0000",
        b"\\ud800",
        b"%2e%2e%2f",
        b"..",
        b"\xf0\x9f\x90\x86",
        b"\xc3(",
    ),
]


Kind = Callable[[random.Random], bytes]


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    return serve(f"ident={write_model(models / 'ident', identity('FP32', ['n', 'm']))}")


def noise(dice: random.Random) -> bytes:
    """Bytes that were never a request."""
    return dice.randbytes(dice.choice([1, 2, 9, 30, 300, 5_000]))


def shaped_noise(dice: random.Random) -> bytes:
    """A first line as it should be, and lines of anything."""
    lines = [dice.choice(GOOD).partition(b"\r\n")[0]]
    lines += [dice.choice(SPICE) + dice.randbytes(dice.randrange(12)) for _ in range(dice.randrange(8))]
    return b"\r\n".join((*lines, b"", dice.randbytes(dice.randrange(60))))


def mutated(dice: random.Random) -> bytes:
    """A good request with one to four places changed, cut out, doubled or spiced."""
    data = bytearray(dice.choice(GOOD))
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        end = min(len(data), at + dice.choice([1, 1, 2, 8, 40]))
        change = dice.randrange(5)
        if change == 0 and at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        elif change == 1:
            del data[at:end]
        elif change == 2:
            data[at:at] = data[at:end]
        elif change == 3:
            data[at:at] = dice.choice(SPICE)
        else:
            data[at:end] = dice.choice(SPICE)
    return bytes(data)


def mixed(dice: random.Random) -> bytes:
    """Good and mutated requests one after another."""
    return b"".join(mutated(dice) if dice.random() < 0.4 else dice.choice(GOOD) for _ in range(dice.randint(2, 5)))


def segments(dice: random.Random, data: bytes) -> Iterator[bytes]:
    """`data` whole, or cut at a few places."""
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.choice([0, 0, 1, 2, 5])))
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        yield data[start:end]


@pytest.mark.parametrize("kind", [noise, shaped_noise, mutated, mixed], ids=lambda kind: kind.__name__)
def test_no_bytes_kill_or_hang_the_server(server: RunningServer, kind: Kind) -> None:
    dice = random.Random(kind.__name__)
    deadline = time.monotonic() + TIME_S
    cut_off = 0
    for number in range(ROUNDS):
        assert time.monotonic() < deadline, f"only {number} rounds in {TIME_S} s"
        data = kind(dice)
        with RawClient(server.http_port, timeout_s=5.0) as client:
            try:
                client.send_each(segments(dice, data))
                client.finish_sending()
                received = client.rest()
            except TimeoutError:
                raise AssertionError(f"round {number}: neither an answer nor an end to {data!r}") from None
            except OSError:
                cut_off += 1  # it has closed while we were sending
                continue
        heads = data.count(b"HEAD ")  # answers to those have no body to find the next one by
        statuses = [] if heads else list(answers_in(received))
        wrong = [status for status in statuses if status >= 500 and status not in (501, 503)]
        assert not wrong, f"round {number}: {wrong} to {data!r}"
    assert cut_off < ROUNDS / 4, "most clients must be able to read their answer"
    wait_until(lambda: gauge(server, "guepard_http_connections") == 1 and gauge(server, "guepard_inflight_bytes") == 0)
    assert_alive(server)


def test_noise_on_the_metrics_port(server: RunningServer) -> None:
    dice = random.Random("metrics")
    for _ in range(100):
        with RawClient(server.metrics_port, timeout_s=5.0) as client:
            try:
                client.send(noise(dice))
                client.finish_sending()
                client.rest()
            except ConnectionError:
                continue
    assert_alive(server)


def test_a_crowd_of_broken_clients_does_not_hold_up_a_good_one(server: RunningServer) -> None:
    dice = random.Random("crowd")
    crowd = [RawClient(server.http_port) for _ in range(200)]
    for client in crowd:
        client.send(mutated(dice)[:-1])
    assert_alive(server)
    for client in crowd:
        client.close()
    wait_until(lambda: gauge(server, "guepard_http_connections") == 1 and gauge(server, "guepard_inflight_bytes") == 0)

"""Long JSON bodies beside small requests: nobody waits for them to be read."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import pytest

from guepard.testing.running_server import RunningServer
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import LIVE, RawClient, gauge, infer, message
from tests.services.waiting import wait_until

SIZE = 20_000_000
AT_ONCE = 3
WORST_S = 1.0


@pytest.fixture(scope="module", params=["compiled where it is built", "pure"])
def server(request: pytest.FixtureRequest, models: Path) -> Iterator[RunningServer]:
    wide = write_model(models / "wide", identity("FP32", ["n", "m"]))
    small = write_model(models / "ident", identity("FP32", ["n", "m"]))
    env = {"GUEPARD_NO_COMPILED": "1" if request.param == "pure" else ""}
    with RunningServer(f"wide={wide}", f"ident={small}", env=env) as running:
        yield running


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    return np.round(np.random.default_rng(1).random(SIZE // 10), 7).reshape(100, -1)


def test_probes_are_answered_while_long_bodies_are_read(server: RunningServer, numbers: np.ndarray) -> None:
    rows = orjson.dumps(numbers.tolist())
    flat = orjson.dumps(numbers.reshape(-1).tolist())
    tensor = (
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[%d,%d],"data":%b}],'
        b'"parameters":{"binary_data_output":true}}'
    )
    right = message("POST", "/v2/models/wide/infer", tensor % (*numbers.shape, flat))
    bodies = [
        (right, 200),
        (message("POST", "/v2/models/wide/infer", tensor % (*numbers.shape, rows)), 200),
        (message("POST", "/v1/models/wide:predict", b'{"instances":%b,"signature_name":"no"}' % rows), 400),
    ]
    worst, done = [0.0], threading.Event()

    def probe() -> None:
        with RawClient(server.http_port) as client:
            while not done.is_set():
                for request in (LIVE, infer([1.0])):
                    begun = time.monotonic()
                    assert client.ask(request).status == 200
                    worst[0] = max(worst[0], time.monotonic() - begun)
                time.sleep(0.01)

    def post(body: bytes, status: int) -> bytes:
        with RawClient(server.http_port) as client:
            answer = client.ask(body)
            assert answer.status == status, answer.body[:200]
            return answer.body

    prober = threading.Thread(target=probe)
    prober.start()
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda pair: post(*pair), bodies))
    finally:
        done.set()
        prober.join()
    for answer in answers[:2]:
        assert answer.endswith(numbers.astype(np.float32).tobytes())
    assert b"signature_name" in answers[2]
    assert worst[0] < WORST_S
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 0)


def test_what_is_wrong_is_named_as_in_short_bodies(server: RunningServer, numbers: np.ndarray) -> None:
    values = numbers.reshape(-1)[:100_000].tolist()
    with RawClient(server.http_port) as client:
        for spoilt, told in ((1e39, "data[99999]"), (None, "data[99999]")):
            values[-1] = spoilt
            tensor = {"name": "x", "datatype": "FP32", "shape": [1, len(values)], "data": values}
            answer = client.ask(message("POST", "/v2/models/wide/infer", json.dumps({"inputs": [tensor]}).encode()))
            assert answer.status == 400
            assert told in answer.body.decode()


def test_who_leaves_while_a_body_is_read_takes_its_bytes_along(server: RunningServer, numbers: np.ndarray) -> None:
    body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[%d,%d],"data":%b}]}'
    text = body % (*numbers.shape, orjson.dumps(numbers.tolist()))
    for _ in range(2):
        with RawClient(server.http_port) as client:
            client.send(message("POST", "/v2/models/wide/infer", text))
    with RawClient(server.http_port) as client:
        assert client.ask(infer([1.0])).status == 200
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 0)

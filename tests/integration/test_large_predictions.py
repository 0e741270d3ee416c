"""Predict answers that are made, coded and sent piece by piece, as those of V2 are."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.codings import DECOMPRESS
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import RawClient, assert_alive, gauge, infer, message, values_of
from tests.services.waiting import wait_until

COUNT = 300_000
CODED = pytest.mark.parametrize("coding", [None, "gzip"])


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    ident = write_model(models / "ident", identity("FP32", ["n", "m"]))
    return serve(f"ident={ident}", "ramp=tests/services/python_models.py:Ramp")


@pytest.fixture(autouse=True)
def nothing_is_left(server: RunningServer) -> Iterator[None]:
    yield
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 0)
    assert_alive(server)


def predict(model: str, body: object, coding: str | None = None, *, version: str = "1.1") -> bytes:
    accepts = [f"Accept-Encoding: {coding}"] if coding else []
    body = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    return message("POST", f"/v1/models/{model}:predict", body, accepts, version=version)


def ramp_of(client: RawClient, count: int) -> dict[str, list[object]]:
    """What V2 says."""
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "data": [count]}
    answer = client.ask(message("POST", "/v2/models/ramp/infer", orjson.dumps({"inputs": [tensor]})))
    return {output["name"]: output["data"] for output in answer.json["outputs"]}


def numbers(count: int) -> bytes:
    return orjson.dumps(np.arange(count, dtype=np.float32) / 7, option=orjson.OPT_SERIALIZE_NUMPY)


@CODED
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_columns_have_the_values_of_v2(server: RunningServer, coding: str | None, version: str) -> None:
    with RawClient(server.http_port) as client:
        expected = ramp_of(client, COUNT)
        answer = client.ask(predict("ramp", {"inputs": [COUNT]}, coding, version=version))
    assert answer.headers.get("content-encoding") == coding
    assert ("transfer-encoding" in answer.headers) == (version == "1.1")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["guepard-model-version"] == "1"
    body = DECOMPRESS[coding](answer.body) if coding else answer.body
    assert body == orjson.dumps({"outputs": expected})


@CODED
@pytest.mark.parametrize("shape", [(1, COUNT), (COUNT // 10, 10)])
def test_rows_are_cut_between_and_within(server: RunningServer, coding: str | None, shape: tuple[int, int]) -> None:
    rows = (np.arange(COUNT, dtype=np.float32) / 7).reshape(shape)
    with RawClient(server.http_port) as client:
        answer = client.ask(predict("ident", {"instances": rows}, coding))
    assert "transfer-encoding" in answer.headers
    body = DECOMPRESS[coding](answer.body) if coding else answer.body
    assert body == b'{"predictions":%b}' % orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY)


def test_sagemaker_s_route_sends_pieces_too(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        body = orjson.dumps({"inputs": [COUNT]})
        answer = client.ask(message("POST", "/invocations", body, ["X-Amzn-SageMaker-Target-Model: ramp"]))
    assert "transfer-encoding" in answer.headers
    assert answer.body.startswith(b'{"outputs":{"y":%b,"words":["' % numbers(COUNT))


@CODED
def test_others_are_answered_while_a_large_answer_is_made(server: RunningServer, coding: str | None) -> None:
    with (
        RawClient(server.http_port, receive_buffer=16_384, pause_s=0.001) as slow,
        RawClient(server.http_port) as other,
    ):
        slow.send(predict("ramp", {"inputs": [COUNT]}, coding))
        for _ in range(20):
            assert values_of(other.ask(infer([1.0]))) == [1.0]
        assert gauge(server, "guepard_inflight_bytes") < 2_000_000
        answer = slow.answer()
    body = DECOMPRESS["gzip"](answer.body) if coding else answer.body
    assert body.startswith(b'{"outputs":{"y":%b,' % numbers(COUNT))


@CODED
def test_what_json_cannot_carry_is_406_and_nothing_else_is_sent(server: RunningServer, coding: str | None) -> None:
    with RawClient(server.http_port) as client:
        answer = client.ask(predict("ramp", {"inputs": [-1_000_000]}, coding))
        assert (answer.status, answer.json["code"]) == (406, "not_acceptable")
        assert "output 'y' holds NaN" in answer.json["error"]
        assert values_of(client.ask(infer([1.0]))) == [1.0]

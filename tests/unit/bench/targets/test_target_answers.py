"""What servers say of models and of failures, in the forms that there are."""

import socket
import threading
from typing import Any

import orjson
import pytest

from guepard.bench.targets.http_exchange import HttpAnswer, exchange
from guepard.bench.targets.model_metadata import InputMetadata, from_message, from_oip, from_signature
from guepard.bench.targets.refusals import grpc_refusal, http_refusal, server_message
from guepard.bench.targets.target_refused import TargetRefused
from guepard.core.datatypes import DATATYPES
from guepard.core.tensor import TensorSpec
from guepard.measure.load.plan import Endpoint
from guepard.protocols.grpc_messages import message_class
from guepard.protocols.v1_metadata import signature_document


def answer(status: int, body: object = b"", **headers: str) -> HttpAnswer:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return HttpAnswer(status, {name.replace("_", "-"): value for name, value in headers.items()}, data, 0.0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": "unknown model", "code": "not_found"}, "unknown model"),
        ({"error": {"message": "no key", "type": "x"}}, "no key"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body", "x"], "msg": "Field required", "type": "missing"}]}, "body.x: Field required"),
        ({"code": 400, "message": "bad\n  input"}, "bad input"),
        (b"plain  text\n", "plain text"),
        (b"", ""),
        ({"error": "x" * 1000}, "x" * 400 + "…"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\x1b[31mred\x07\n", "[31mred"),
    ],
)
def test_what_the_server_says_itself(body: object, said: str) -> None:
    assert server_message(answer(400, body)) == said


def test_pages_lose_their_tags() -> None:
    page = b"<html><head><style>a{}</style><title>400 Bad</title></head><body><h1>nginx</h1></body></html>"
    assert server_message(answer(400, page, content_type="text/html; charset=utf-8")) == "400 Bad nginx"


@pytest.mark.parametrize(
    ("refused", "named"),
    [
        (answer(302, location="https://h/login"), "redirects to https://h/login; measure that URL"),
        (answer(301), "without saying where"),
        (answer(401), "--header 'Authorization"),
        (answer(403), "--header 'Authorization"),
        (answer(404), "check the path"),
        (answer(405, allow="PUT"), "use --method PUT"),
        (answer(413), "send less"),
        (answer(415), "Content-Type"),
        (answer(429), "too busy"),
        (answer(400, {"error": "shape"}), "Bad Request: shape; correct the data .*--shape"),
        (answer(422), "correct the data"),
        (answer(400, b"The plain HTTP request was sent to HTTPS port"), "write https:// instead of http://"),
        (answer(400, b"Reason: You're speaking plain HTTP to an SSL-enabled server port."), "write https://"),
        (answer(400, b"Client sent an HTTP request to an HTTPS server.\n"), "write https://"),
        (answer(503, {"error": "loading"}), "loading; wait until it is ready, --wait-ready"),
        (answer(500), "log"),
        (answer(599), "log"),
        (answer(418), "correct the request"),
    ],
)
def test_statuses_come_with_a_remedy(refused: HttpAnswer, named: str) -> None:
    with pytest.raises(TargetRefused, match=f"POST /p: {refused.status}.*{named}"):
        raise http_refusal("POST /p", refused)


def test_known_models_are_listed() -> None:
    assert "the server has a, b; name one with --model" in str(http_refusal("w", answer(404), ["a", "b"]))
    assert "the server has a; name one" in str(grpc_refusal("w", 5, "unknown", ["a"]))


@pytest.mark.parametrize(
    ("code", "named"),
    [
        (3, "INVALID_ARGUMENT: why; correct"),
        (16, "UNAUTHENTICATED.*--header"),
        (14, "wait-ready"),
        (99, "gRPC 99.*log"),
    ],
)
def test_statuses_of_grpc(code: int, named: str) -> None:
    with pytest.raises(TargetRefused, match=named):
        raise grpc_refusal("w", code, "why")


def test_metadata_of_oip() -> None:
    document = {
        "name": "m",
        "versions": ["3"],
        "platform": "p",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 4]},
            {"name": "s", "datatype": "BYTES", "shape": []},
        ],
        "outputs": [],
    }
    model = from_oip("m", document)
    assert (model.version, model.inputs) == (
        "3",
        (InputMetadata("x", "FP32", (-1, 4)), InputMetadata("s", "BYTES", ())),
    )
    assert from_oip("m", document | {"versions": ["1", "2"]}).version is None


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (None, "not those of the Open Inference Protocol"),
        ({"name": "m"}, "not those of the Open Inference Protocol"),
        ({"inputs": [{"name": "x"}]}, "not those of the Open Inference Protocol"),
        ({"inputs": []}, "tells of no inputs; give whole requests with --data"),
        ({"inputs": [{"name": "x", "datatype": "FLOAT", "shape": []}]}, "unknown datatype 'FLOAT'"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-2]}]}, "has no shape but"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": None}]}, "has no shape but None"),
    ],
)
def test_metadata_that_are_none(document: Any, named: str) -> None:
    with pytest.raises(TargetRefused, match=named):
        from_oip("m", document)


class _Config:
    """What `signature_document` reads of a configuration."""

    name = "m"
    version = "3"
    max_batch_size = 8
    inputs = tuple(TensorSpec(name.lower(), name, [2, -1]) for name in DATATYPES)
    outputs = ()


def test_metadata_of_tensorflow_serving() -> None:
    config: Any = _Config()
    model = from_signature("m", signature_document(config))
    assert model.version == "3"
    assert model.inputs == tuple(InputMetadata(name.lower(), name, (-1, 2, -1)) for name in DATATYPES)


@pytest.mark.parametrize("shape", [{"unknown_rank": True}, {"dim": [{"size": "x"}]}, {"dim": [{}]}, None])
def test_signatures_whose_shapes_are_open(shape: Any) -> None:
    signature = {"inputs": {"x": {"dtype": "DT_FLOAT", "tensor_shape": shape}}}
    document = {"metadata": {"signature_def": {"signature_def": {"other": signature}}}}
    with pytest.raises(TargetRefused, match="leave shapes open"):
        from_signature("m", document)


def test_metadata_as_a_message() -> None:
    message = message_class("inference.ModelMetadataResponse")(name="m", versions=["3"])
    message.inputs.add(name="x", datatype="FP32", shape=[-1, 4])
    assert from_message("m", message).inputs == (InputMetadata("x", "FP32", (-1, 4)),)


def test_an_interim_answer_is_followed_by_the_final_one() -> None:
    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        endpoint = Endpoint(protocol="http", host="127.0.0.1", port=listener.getsockname()[1])
        found = exchange(endpoint, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 5.0)
        server.join()
    assert (found.status, found.body) == (200, b"hi")
    assert "link" not in found.headers

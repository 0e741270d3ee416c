"""Requests whose tensors do not fit: shapes, counts, names, ids. Each is told what is wrong and the server goes on.

The same over gRPC: `test_same_on_http_and_grpc.py`. Left to later parts: chains of models, whose first step is checked
like any other model.
"""

import json
import struct
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http
from tritonclient.utils import deserialize_bytes_tensor

from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.python_models import MIXED_BYTES

PYTHON_MODELS = Path("tests/services/python_models.py")

GOOD = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.5, -2]}]}


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    built = {
        "ident_fp32": onnx_models.identity("FP32", ("n", "m")),
        "ident_int32": onnx_models.identity("INT32", ("n", "m")),
        "row16": onnx_models.identity("INT32", ("n", 16)),
        "flat": onnx_models.identity("FP32", ("n",)),
        "matrix": onnx_models.identity("FP32", ("n", "m", "k")),
        "add": onnx_models.add("FP32", ("n", 2)),
    }
    arguments = [f"{name}={onnx_models.write_model(models / f'{name}.onnx', model)}" for name, model in built.items()]
    return serve(*arguments, f"mixed_bytes={PYTHON_MODELS}:MixedBytes", "--log-sample-rate", "1")


def tensor(datatype: str, shape: Any, data: Any, name: str = "x") -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def refused(answer: Answer, *fragments: str, status: int = 400) -> None:
    """The answer is a clear error: its status, JSON, a text that holds all of `fragments`, nothing of our insides."""
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/json"
    text = answer.json["error"]
    assert isinstance(text, str)
    for fragment in fragments:
        assert fragment in text
    assert text
    for inside in ("Traceback", ".py", "/tmp", "site-packages", "Error("):
        assert inside not in text


def is_alive(server: RunningServer) -> None:
    assert server.request("GET", "/v2/health/live").status == 200
    answer = server.infer("ident_fp32", GOOD)
    assert (answer.status, answer.json["outputs"][0]["data"]) == (200, [1.5, -2.0])


def executions(server: RunningServer, model: str) -> int:
    count = server.request("GET", f"/v2/models/{model}/stats").json["model_stats"][0]["execution_count"]
    assert isinstance(count, int)
    return count


# A request that is built of the wrong JSON types


@pytest.mark.parametrize(
    "shape", ["-1", None, {}, 5, [1.5], ["1"], [True], [None], [[1]], [-1], [2**63], [2**70], [1] * 100, [0, 2**62]]
)
def test_a_shape_of_the_wrong_kind_is_refused(server: RunningServer, shape: Any) -> None:
    """triton-inference-server/server#1649: such a shape ended the server process."""
    refused(server.infer("ident_fp32", {"inputs": [tensor("FP32", shape, [1])]}), "shape")
    refused(server.infer("ident_fp32", {"inputs": [tensor("FP32", shape, [])]}), "shape")
    is_alive(server)


@pytest.mark.parametrize("shape", [[1, 2, 3], [2], [], [1] * 33, [0, 2**62], [2**63 - 1, 2], [0, 2**63 - 1]])
def test_a_binary_tensor_of_a_shape_that_cannot_be_is_refused(server: RunningServer, shape: Any) -> None:
    head = {"inputs": [{"name": "x", "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": 0}}]}
    text = json.dumps(head).encode()
    answer = server.request(
        "POST", "/v2/models/ident_fp32/infer", text, {"Inference-Header-Content-Length": str(len(text))}
    )
    refused(answer, "shape")
    is_alive(server)


@pytest.mark.parametrize("inputs", [{}, None, "x", 5, [[]], ["x"], [None], [{}]])
def test_inputs_of_the_wrong_kind_are_refused(server: RunningServer, inputs: Any) -> None:
    refused(server.infer("ident_fp32", {"inputs": inputs}), "inputs")
    is_alive(server)


@pytest.mark.parametrize(
    "data", [[{"b64": "AA=="}], {"b64": "AA=="}, None, "1", 1, True, [None], ["1"], [True], [[1, [2]]], [[[1, 2]]]]
)
def test_data_of_the_wrong_kind_is_refused(server: RunningServer, data: Any) -> None:
    refused(server.infer("ident_fp32", {"inputs": [tensor("FP32", [1, 2], data)]}), "data")
    is_alive(server)


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b"{}", b"\xff\xfe", b'{"inputs": [NaN]}', b"inputs=1"])
def test_what_is_no_request_is_refused(server: RunningServer, body: bytes) -> None:
    refused(server.request("POST", "/v2/models/ident_fp32/infer", body), "request body: ")
    is_alive(server)


def test_a_request_of_a_million_dimensions_holds_nobody_up(server: RunningServer) -> None:
    shape = ",".join(["9223372036854775807"] * 200_000)
    body = f'{{"inputs":[{{"name":"x","shape":[{shape}],"datatype":"FP32","data":[1]}}]}}'
    refused(server.request("POST", "/v2/models/ident_fp32/infer", body, timeout_s=5), "inputs[0].shape")
    is_alive(server)


# Counts


@pytest.mark.parametrize("count", [18, 15, 0, 17, 32])
def test_a_count_that_the_shape_does_not_need_is_refused(server: RunningServer, count: int) -> None:
    """triton-inference-server/server#3158: what was too much was read or written past the buffer."""
    body = {"inputs": [tensor("INT32", [1, 16], list(range(count)))]}
    refused(server.infer("row16", body), "'x'", "16", str(count))
    good = server.infer("row16", {"inputs": [tensor("INT32", [1, 16], list(range(16)))]})
    assert good.json["outputs"][0]["data"] == list(range(16))


@pytest.mark.parametrize(
    "data",
    [[[1, 2], [3]], [[1, 2], [3, 4, 5]], [[1, 2]], [[1, 2], [3, 4], [5, 6]], [[], []], [[1, 2], 3], [1, [2, 3, 4]]],
)
def test_ragged_lists_are_refused(server: RunningServer, data: Any) -> None:
    refused(server.infer("ident_int32", {"inputs": [tensor("INT32", [2, 2], data)]}), "'x'")
    is_alive(server)


@pytest.mark.parametrize("size", [0, 60, 63, 65, 72])
def test_bytes_that_the_shape_does_not_need_are_refused(server: RunningServer, size: int) -> None:
    head = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "INT32", "parameters": {"binary_data_size": size}}]}
    text = json.dumps(head).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    answer = server.request("POST", "/v2/models/row16/infer", text + bytes(size), headers)
    refused(answer, "'x'", "takes 64 bytes", f"is {size}")


def test_a_tensor_that_the_model_does_not_take_is_refused_on_a_connection_that_stays(server: RunningServer) -> None:
    """SeldonIO/seldon-core#5188: the caller saw a connection reset."""
    connection = HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    wrong = [
        (tensor("INT64", [1, 2], [1, 2]), ["'x'", "expected datatype FP32", "got INT64"]),
        (tensor("FP64", [1, 2], [1, 2]), ["'x'", "expected datatype FP32", "got FP64"]),
        (tensor("FP32", [2], [1, 2]), ["'x'", "expected shape [-1, -1]", "got [2]"]),
        (tensor("FP32", [1, 2, 1], [1, 2]), ["'x'", "expected shape [-1, -1]", "got [1, 2, 1]"]),
        (tensor("FP32", [], [1]), ["'x'", "expected shape [-1, -1]", "got []"]),
        (tensor("FP32", [1, 2], [1, 2], name="X"), ["'X' is no input of model 'ident_fp32'", "it has 'x'"]),
    ]
    connection.connect()
    first = connection.sock
    for given, fragments in wrong:
        connection.request("POST", "/v2/models/ident_fp32/infer", json.dumps({"inputs": [given]}))
        with connection.getresponse() as response:
            error = json.loads(response.read())["error"]
        assert response.status == 400
        assert all(fragment in error for fragment in fragments), error
    connection.request("POST", "/v2/models/ident_fp32/infer", json.dumps(GOOD))
    with connection.getresponse() as response:
        assert json.loads(response.read())["outputs"][0]["data"] == [1.5, -2.0]
    assert connection.sock is first
    connection.close()


@pytest.mark.parametrize("shape", [[1, 15], [1, 17], [16], [2, 2, 4]])
def test_a_fixed_dimension_is_named(server: RunningServer, shape: list[int]) -> None:
    body = {"inputs": [tensor("INT32", shape, list(range(int(np.prod(shape)))))]}
    refused(server.infer("row16", body), "'x'", "expected shape [-1, 16], where -1 is the batch", f"got {shape}")


# No elements at all


@pytest.mark.parametrize(
    ("model", "shape", "data"),
    [
        ("flat", [0], []),
        ("ident_fp32", [2, 0], []),
        ("ident_fp32", [2, 0], [[], []]),
        ("ident_fp32", [0, 2], []),
        ("ident_fp32", [0, 0], []),
        ("matrix", [2, 0, 3], [[], []]),
        ("matrix", [1, 2, 0], [[[], []]]),
    ],
)
def test_a_tensor_without_elements_comes_back_as_it_went(
    server: RunningServer, model: str, shape: list[int], data: list[Any]
) -> None:
    """triton-inference-server/server#5972: zero bytes ended the server; graphs without edges have such tensors."""
    answer = server.infer(model, {"inputs": [tensor("FP32", shape, data)]})
    assert answer.status == 200, answer.body
    assert answer.json["outputs"] == [{"name": "y", "datatype": "FP32", "shape": shape, "data": []}]
    with tritonclient.http.InferenceServerClient(server.address) as client:
        given = tritonclient.http.InferInput("x", shape, "FP32")
        given.set_data_from_numpy(np.zeros(shape, np.float32))
        result = client.infer(model, [given])
        assert result.as_numpy("y").shape == tuple(shape)
        assert result.get_output("y")["parameters"] == {"binary_data_size": 0}
    is_alive(server)


def test_an_empty_tensor_does_not_disturb_those_it_meets_in_a_batch(server: RunningServer) -> None:
    shapes = [[2, 0], [2, 3], [0, 3], [1, 3]] * 10
    with tritonclient.http.InferenceServerClient(server.address, concurrency=len(shapes)) as client:
        waiting = []
        for number, shape in enumerate(shapes):
            array = np.full(shape, number, np.float32)
            given = tritonclient.http.InferInput("x", shape, "FP32")
            given.set_data_from_numpy(array)
            waiting.append((array, client.async_infer("ident_fp32", [given])))
        for array, answer in waiting:
            given_back = answer.get_result().as_numpy("y")
            assert given_back.shape == array.shape
            assert np.array_equal(given_back, array)


# Names


def test_an_input_given_twice_is_named_and_not_run(server: RunningServer) -> None:
    """triton-inference-server/server#5956: one of the two was used, and which one depended on the build."""
    before = executions(server, "ident_fp32"), executions(server, "add")
    twice = [tensor("FP32", [1, 1], [1]), tensor("FP32", [1, 1], [2])]
    refused(server.infer("ident_fp32", {"inputs": twice}), "input 'x' is given twice")
    pair = [tensor("FP32", [1, 2], [1, 2], name) for name in ("a", "b", "a")]
    refused(server.infer("add", {"inputs": pair}), "input 'a' is given twice")
    assert (executions(server, "ident_fp32"), executions(server, "add")) == before


@pytest.mark.parametrize(
    ("names", "fragments"),
    [
        ([], ["input 'a' is missing", "needs 'a', 'b'"]),
        (["a"], ["input 'b' is missing", "needs 'a', 'b'"]),
        (["a", "b", "c"], ["input 'c' is no input of model 'add'", "it has 'a', 'b'"]),
        (["a", "B"], ["input 'B' is no input"]),
        (["a", ""], ["input '' is no input"]),
    ],
)
def test_inputs_that_are_missing_or_too_many_are_named(
    server: RunningServer, names: list[str], fragments: list[str]
) -> None:
    refused(server.infer("add", {"inputs": [tensor("FP32", [1, 2], [1, 2], name) for name in names]}), *fragments)


def test_inputs_of_different_batch_sizes_are_refused(server: RunningServer) -> None:
    body = {"inputs": [tensor("FP32", [1, 2], [1, 2], "a"), tensor("FP32", [2, 2], [1, 2, 3, 4], "b")]}
    refused(server.infer("add", body), "input 'b'", "batch size 2 differs from the 1")


@pytest.mark.parametrize(
    ("outputs", "fragment"),
    [
        ([{"name": "z"}], "'z' is no output of model 'ident_fp32'; it has 'y'"),
        ([{"name": "y"}, {"name": "y"}], "outputs: 'y' is asked for twice"),
        ([{}], "outputs[0]"),
        (["y"], "outputs[0]"),
        ({}, "outputs"),
    ],
)
def test_outputs_that_there_are_not_are_refused(server: RunningServer, outputs: Any, fragment: str) -> None:
    refused(server.infer("ident_fp32", GOOD | {"outputs": outputs}), fragment)


# Byte strings of several dimensions


def test_byte_strings_keep_their_place_in_three_dimensions(server: RunningServer) -> None:
    """triton-inference-server/server#3524: declared shape and byte layout of such an output disagreed."""
    expected = [text.encode() if isinstance(text, str) else text for text in MIXED_BYTES]
    body = {"inputs": [tensor("FP32", [1], [0])], "parameters": {"binary_data_output": True}}
    answer = server.infer("mixed_bytes", body)
    length = int(answer.headers["inference-header-content-length"])
    (output,) = json.loads(answer.body[:length])["outputs"]
    data = answer.body[length:]
    assert output["shape"] == [2, 2, 3]
    assert output["parameters"]["binary_data_size"] == len(data) == sum(4 + len(text) for text in expected)
    assert data == b"".join(struct.pack("<I", len(text)) + text for text in expected)
    assert deserialize_bytes_tensor(data).tolist() == expected
    with tritonclient.http.InferenceServerClient(server.address) as client:
        given = tritonclient.http.InferInput("x", [1], "FP32")
        given.set_data_from_numpy(np.zeros(1, np.float32))
        assert client.infer("mixed_bytes", [given]).as_numpy("y").ravel().tolist() == expected


# Request ids


@pytest.mark.parametrize("fields", [{}, {"id": None}])
def test_an_answer_to_a_request_without_an_id_has_no_null_in_its_place(
    server: RunningServer, fields: dict[str, Any]
) -> None:
    """kserve/kserve#3094: a null id in the reply, which the server itself then refused."""
    answer = server.infer("ident_fp32", GOOD | fields)
    assert answer.status == 200
    assert "id" not in answer.json


@pytest.mark.parametrize(
    "request_id",
    ["42", "x" * 4096, 'a"b', "line\nbreak\r\n", "😀 ünïcödé", "\x00\x1f\\u0000", " ", "null", "</script>"],
)
def test_an_id_comes_back_to_the_letter_and_breaks_no_log_line(server: RunningServer, request_id: str) -> None:
    answer = server.infer("ident_fp32", GOOD | {"id": request_id})
    assert (answer.status, answer.json["id"]) == (200, request_id)
    refused(server.infer("ident_fp32", {"id": request_id, "inputs": []}), "'x' is missing")
    if request_id:
        server.wait_for_record(f'"inference_id": {json.dumps(request_id)}', timeout_s=5)
    assert not [record for record in server.records() if "raw" in record]


@pytest.mark.parametrize("request_id", [42, 1.5, True, ["42"], {"id": "42"}, "x" * 10_000])
def test_an_id_is_a_string_of_a_reasonable_length(server: RunningServer, request_id: Any) -> None:
    refused(server.infer("ident_fp32", GOOD | {"id": request_id}), "id: expected str")


# Every error has a body


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v2/models/ident_fp32/infer", 400),
        ("POST", "/v2/models/unknown/infer", 404),
        ("POST", "/v2/models/ident_fp32/versions/9/infer", 404),
        ("POST", "/v2/models/ident_fp32/versions/latest/infer", 404),
        ("GET", "/v2/models/unknown", 404),
        ("GET", "/v2/models/unknown/config", 404),
        ("GET", "/v2/models/unknown/stats", 404),
        ("GET", "/v2/models/unknown/ready", 404),
        ("GET", "/v2/nowhere", 404),
        ("GET", "/", 404),
        ("GET", "/v2/models/ident_fp32/infer", 405),
        ("DELETE", "/v2", 405),
        ("GET", "/v2/repository/index", 405),
        ("POST", "/v2/repository/models/unknown/load", 404),
        ("POST", "/v2/repository/models/unknown/unload", 404),
        ("POST", "/v2/repository/index", 400),
    ],
)
def test_every_error_says_what_is_wrong(server: RunningServer, method: str, path: str, status: int) -> None:
    """kserve/kserve#3369: a 400 without a body."""
    wrong = b'{"ready": 1, "inputs": 1}' if "index" in path or "infer" in path else None
    answer = server.request(method, path, wrong if method == "POST" else None)
    refused(answer, status=status)
    assert answer.json["code"]
    assert answer.headers["x-request-id"]

"""`/v1/models/{model}:predict` as clients of TensorFlow Serving and of KServe V1 use it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from guepard.core.datatypes import DATATYPES
from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import Call, Reply, call_together
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"
PREDICT = "/v1/models/{model}:predict"
EIGHT = {"max_batch_size": 8, "dynamic_batching": {"max_queue_delay": "20s"}}


def identity(name: str, *inputs: tuple[str, str, list[int]], max_batch_size: int = 8) -> dict[str, Any]:
    tensors = [{"name": tensor, "datatype": datatype, "dims": dims} for tensor, datatype, dims in inputs]
    return {"name": name, "backend": "identity", "inputs": tensors, "max_batch_size": max_batch_size}


def python(name: str, entry: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "path": f"{PYTHON_MODELS}:{entry}", "backend": "python", "trust": True, **options}


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    onnx_models.write_model(models / "double.onnx", onnx_models.double(1))
    onnx_models.write_model(models / "divide.onnx", onnx_models.divide(1))
    onnx_models.write_model(models / "sums.onnx", onnx_models.two_outputs(2))
    entries = [
        *[identity(f"ident_{name.lower()}", ("x", name, [2])) for name in DATATYPES],
        identity("two", ("a", "INT32", [2]), ("b", "BYTES", [1])),
        identity("text", ("x", "BYTES", [1])),
        identity("image", ("image_bytes", "BYTES", [])),
        identity("lone", ("x", "FP32", [-1, 2]), max_batch_size=0),
        python("fail", "RefuseNegative", **EIGHT),
        python("echo", "EchoParameters"),
        python("sleep", "Sleep"),
        python("stream", "Stream"),
        {"name": "double", "path": "double.onnx", "max_batch_size": 8, "dynamic_batching": {"max_queue_delay": "20ms"}},
        {"name": "divide", "path": "divide.onnx", **EIGHT},
        {"name": "sums", "path": "sums.onnx"},
    ]
    (models / "guepard.yaml").write_text(yaml.safe_dump({"logging": {"sample_rate": 1}, "models": entries}))
    return serve("--config", models / "guepard.yaml")


def predict(server: RunningServer, model: str, body: Any, **headers: str) -> Answer:
    return server.request("POST", PREDICT.format(model=model), body, headers)


def rows(*values: float) -> dict[str, Any]:
    return {"instances": [[value] for value in values]}


def predictions(reply: Reply) -> Any:
    assert reply.status == 200, reply.body
    return reply.json["predictions"]


VALUES: dict[str, list[Any]] = {
    "BOOL": [True, False],
    "BYTES": ["é", ""],
    "FP16": [65504.0, -0.5],
    "FP32": [0.1, -3.4028235e38],
    "FP64": [0.1, 1.7976931348623157e308],
    "BF16": [1.5, -3.0],
}


@pytest.mark.parametrize("datatype", list(DATATYPES))
def test_every_datatype_in_rows_and_columns(server: RunningServer, datatype: str) -> None:
    bits = int(re.sub(r"\D", "", datatype) or 0)
    limits = [0, 2**bits - 1] if datatype.startswith("U") else [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] if bits else []
    value = VALUES.get(datatype, limits)
    model = f"ident_{datatype.lower()}"
    for sent, answer in [
        ({"instances": [value, value[::-1]]}, {"predictions": [value, value[::-1]]}),
        ({"instances": [{"x": value}]}, {"predictions": [value]}),
        ({"inputs": [value]}, {"outputs": [value]}),
        ({"inputs": {"x": [value]}}, {"outputs": [value]}),
    ]:
        came = predict(server, model, sent)
        assert (came.status, came.headers["guepard-model-version"]) == (200, "1"), came.body
        assert came.json == answer


@pytest.mark.parametrize(
    ("model", "body", "field"),
    [
        # triton-inference-server/server#8821: a value beyond its datatype was narrowed and inferred on.
        ("ident_uint8", {"instances": [[0, 256]]}, r"instances\[0\]\[1\]"),
        ("ident_int8", {"instances": [[0, -129]]}, r"instances\[0\]\[1\]"),
        ("ident_uint16", {"inputs": [[65536, 0]]}, r"inputs\[0\]\[0\]"),
        ("ident_int32", {"inputs": {"x": [[2**31, 0]]}}, r"inputs.x\[0\]\[0\]"),
        ("ident_uint64", {"instances": [{"x": [-1, 0]}]}, r"instances\[0\].x\[0\]"),
        ("ident_uint64", {"instances": [{"x": [2**64, 0]}]}, r"instances\[0\].x\[0\]"),
        ("ident_int32", {"instances": [[1.5, 0]]}, r"instances\[0\]\[0\]"),
        ("ident_int32", {"instances": [["3", 0]]}, r"instances\[0\]\[0\]"),
        ("ident_fp16", {"instances": [[70000.0, 0]]}, r"instances\[0\]\[0\]"),
        ("ident_bool", {"instances": [["true", True]]}, r"instances\[0\]\[0\]"),
        ("ident_bool", {"instances": [[2, True]]}, r"instances\[0\]\[0\]"),
        ("ident_fp32", '{"instances":[[NaN,0]]}', "not valid JSON"),
        # triton-inference-server/server#3158: 18 values for 16 went unnoticed.
        ("ident_int32", {"instances": [[1, 2, 3]]}, r"input 'x': expected shape \[-1, 2\].*got \[1, 3\]"),
        ("ident_int32", {"instances": [[1, 2], [3]]}, r"instances\[1\]"),
        ("ident_int32", {"instances": [[[1, 2]]]}, r"instances\[0\]\[0\]"),
        ("ident_int32", {"inputs": [[1, 2], 3]}, r"inputs\[1\]"),
        # triton-inference-server/server#1649: a field of the wrong type ended the server.
        ("ident_fp32", {"instances": "x"}, "instances: expected array, got str"),
        ("ident_fp32", {"instances": {}}, "instances: expected array, got object"),
        ("ident_fp32", {"inputs": {}}, "missing required field x"),
        ("ident_fp32", {"instances": [{"b64": "AA=="}]}, r"instances\[0\]"),
        ("ident_fp32", {"instances": []}, "instances: empty"),
        ("ident_fp32", {"instances": [], "inputs": []}, "both instances and inputs"),
        ("ident_fp32", {"signature_name": "regress_x", "instances": [[1, 2]]}, "regress_x"),
        ("ident_fp32", "", "request body: empty"),
        ("ident_fp32", "[1]", "expected object, got array"),
        ("ident_fp32", '{"instances":' + "[" * 100_000 + "]" * 100_000 + "}", "deep|expected float, got array"),
        ("two", '{"instances":[{"a":[1,2],"a":[3,4],"b":"x"}]}', "'a' is given twice"),
        ("two", {"instances": [{"a": [1, 2], "b": "x"}, {"a": [1, 2]}]}, r"instances\[1\].*field b.*'a', 'b'"),
        ("two", {"instances": [{"a": [1, 2], "b": "x", "c": 1}]}, r"instances\[0\].*field c.*'a', 'b'"),
        ("two", {"inputs": {"a": [[1, 2]], "b": ["x", "y"]}}, "batch size 2 differs from the 1"),
        ("text", {"instances": ["a", {"b64": "AA="}]}, r"instances\[1\].b64: invalid base64"),
        ("echo", {"instances": [[1]], "parameters": {"priority": 9}}, "parameters.priority"),
    ],
)
def test_what_is_malformed_is_refused_in_words(server: RunningServer, model: str, body: Any, field: str) -> None:
    answer = predict(server, model, body)
    assert (answer.status, answer.headers["content-type"]) == (400, "application/json"), answer.body
    assert answer.json["code"] == "invalid_argument"
    assert re.search(field, answer.json["error"]), answer.json["error"]
    assert predict(server, "ident_fp32", {"instances": [[1, 2]]}).json == {"predictions": [[1.0, 2.0]]}


def test_rows_as_tensorflow_serving_s_users_send_them(server: RunningServer) -> None:
    url = f"{server.url}/v1/models/text"
    for address in (f"{url}:predict", f"{url}/versions/1:predict"):
        answer = requests.post(address, json={"signature_name": "serving_default", "instances": ["a", "b"]}, timeout=20)
        assert (answer.status_code, answer.json()) == (200, {"predictions": [["a"], ["b"]]})
    named = {"instances": [{"a": [1, 2], "b": "x"}, {"a": [3, 4], "b": "y"}]}
    answer = requests.post(f"{server.url}/v1/models/two:predict", data=json.dumps(named), timeout=20)
    assert answer.json() == {"predictions": [{"a": [1, 2], "b": ["x"]}, {"a": [3, 4], "b": ["y"]}]}
    columns = {"inputs": {"a": [[1, 2], [3, 4]], "b": [["x"], ["y"]]}}
    assert predict(server, "two", columns).json == {"outputs": columns["inputs"]}
    sums = {"predictions": [{"total": 3, "negated": [-1, -2]}, {"total": 7, "negated": [-3, -4]}]}
    assert predict(server, "sums", {"instances": [[1, 2], [3, 4]]}).json == sums


def test_bytes_travel_as_base64(server: RunningServer) -> None:
    image = {"b64": "/9j/4A=="}
    assert predict(server, "image", {"instances": [image, "é"]}).json == {"predictions": [image, {"b64": "w6k="}]}
    assert predict(server, "image", {"instances": [{"image_bytes": image}]}).json == {"predictions": [image]}
    refused = predict(server, "text", {"instances": [image]})
    assert (refused.status, refused.json["code"]) == (406, "not_acceptable")
    assert "'x' holds bytes that are not UTF-8" in refused.json["error"]


def test_a_model_without_batches_takes_rows_along_its_first_dimension(server: RunningServer) -> None:
    assert predict(server, "lone", {"instances": [[1, 2], [3, 4]]}).json == {"predictions": [[1, 2], [3, 4]]}
    assert predict(server, "lone", {"inputs": [[1, 2]]}).json == {"outputs": [[1, 2]]}


def test_more_rows_than_a_batch_come_back_in_order(server: RunningServer) -> None:
    answer = predict(server, "double", rows(*range(100)))
    assert answer.json["predictions"] == [[2.0 * value] for value in range(100)]


def test_concurrent_callers_share_batches_and_get_their_own_rows(server: RunningServer) -> None:
    calls = [Call("double", rows(float(caller), caller + 0.5), route=PREDICT) for caller in range(64)]
    for caller, reply in enumerate(call_together(server, calls)):
        assert predictions(reply) == [[2.0 * caller], [2.0 * caller + 1]]
    (stats,) = server.request("GET", "/v2/models/double/stats").json["model_stats"]
    assert max(entry["batch_size"] for entry in stats["batch_stats"]) == 8
    assert stats["inference_count"] >= 128


@pytest.mark.parametrize("model", ["fail", "divide"])
def test_one_bad_row_costs_its_neighbours_nothing(server: RunningServer, model: str) -> None:
    """Lightning-AI/LitServe#340: an error in decoding, in the model or in encoding reached the whole batch."""
    bad, status, value = {"fail": (-1.0, 400, 6.0), "divide": (0.0, 406, 1.0)}[model]
    bodies = [rows(3.0), rows(bad), {"instances": [["x"]]}, *[rows(3.0)] * 6]
    replies = call_together(server, [Call(model, body, route=PREDICT) for body in bodies])
    assert [reply.status for reply in replies] == [200, status, 400, *[200] * 6]
    assert all(predictions(reply) == [[value]] for reply in replies if reply.status == 200)


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/x-www-form-urlencoded", 200),
        ("application/octet-stream", 200),
        ("application/json; charset=utf-8", 200),
        ("text/plain", 415),
        ("text/plain; charset=utf-16", 415),
        ("application/json; charset=utf-16", 415),
        ("multipart/form-data; boundary=x", 415),
    ],
)
def test_the_content_type_rule_is_the_one_of_infer(server: RunningServer, content_type: str, status: int) -> None:
    """triton-inference-server/server#2643: `curl --data` ended the server."""
    headers = {"Content-Type": content_type}
    v1 = server.request("POST", "/v1/models/double:predict", json.dumps(rows(1.0)), headers)
    v2_body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]})
    v2 = server.request("POST", "/v2/models/double/infer", v2_body, headers)
    target = {"X-Amzn-SageMaker-Target-Model": "double"}
    sagemaker = server.request("POST", "/invocations", json.dumps(rows(1.0)), headers | target)
    assert (v1.status, v2.status, sagemaker.status) == (status, status, status)


def test_deadlines_by_parameter_and_by_header(server: RunningServer) -> None:
    slow = rows(500)
    assert predict(server, "sleep", slow | {"parameters": {"timeout": 30_000}}).status == 504
    assert predict(server, "sleep", slow, **{"Guepard-Timeout-Ms": "30"}).status == 504
    assert predict(server, "sleep", rows(0), **{"Guepard-Timeout-Ms": "x"}).status == 400
    assert predict(server, "sleep", rows(0), **{"Guepard-Priority": "4"}).status == 400


def test_parameters_reach_the_model_as_in_v2(server: RunningServer) -> None:
    answer = predict(server, "echo", rows(0.0) | {"parameters": {"mine": "yes", "timeout": 5_000_000, "priority": 1}})
    assert json.loads(answer.json["predictions"][0][0]) == {"mine": "yes"}


def test_a_request_is_counted_and_logged_as_any_other(server: RunningServer) -> None:
    answer = predict(server, "ident_int8", {"instances": [[1, 2]]}, **{"X-Request-Id": "seen-in-v1"})
    assert answer.headers["x-request-id"] == "seen-in-v1"
    count = re.escape('duration_seconds_count{code="200",route="/v1/models/{model}:predict"}')
    assert re.search(rf"{count} [1-9]", server.metrics())
    found: list[dict[str, Any]] = []

    def logged() -> bool:
        found[:] = [record for record in server.records() if record.get("request_id") == "seen-in-v1"]
        return bool(found)

    wait_until(logged)
    assert (found[0]["model"], found[0]["status"]) == ("ident_int8", 200)


def test_a_stream_of_answers_does_not_fit_and_says_so(server: RunningServer) -> None:
    answer = predict(server, "stream", {"instances": [[3]]})
    assert (answer.status, answer.json["code"]) == (501, "unsupported")


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/v1/models/nobody:predict", 404, "unknown model 'nobody'"),
        ("/v1/models/double/versions/2:predict", 404, "no version '2'"),
        ("/v1/models/double/versions/x:predict", 404, "no version 'x'"),
        # tensorflow/serving#1413: labels. Until versions have any, each is unknown, whatever it is called.
        ("/v1/models/double/labels/stable:predict", 404, "no label 'stable'"),
        ("/v1/models/double/labels/1:predict", 404, "no label '1'"),
        ("/v1/models/double/labels/%F0%9F%90%86:predict", 404, "versions have no labels yet"),
        ("/v1/models/double/labels/a%20b:predict", 404, "no label 'a b'"),
        ("/v1/models/double/labels/..%2F1:predict", 404, "no label"),
        ("/v1/models/..:predict", 400, "'..' is not valid"),
        ("/v1/models/double:classify", 501, "tf.Example records"),
        ("/v1/models/double/versions/1:regress", 501, "use :predict"),
        ("/v1/models/double:explain", 501, "no explainer"),
        ("/v1/models/nobody:classify", 404, "unknown model"),
        ("/v1/models/double", 405, "use GET"),
    ],
)
def test_paths_that_lead_nowhere(server: RunningServer, path: str, status: int, text: str) -> None:
    answer = server.request("POST", path, rows(1.0))
    assert (answer.status, text in answer.json["error"]) == (status, True), answer.json

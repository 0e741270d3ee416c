"""Values on their way through JSON and bytes: exactly what was sent comes back, or it is refused.

Where the protocol leaves a choice, this server's is:
- JSON carries every datatype both ways. A number that its datatype cannot hold is refused (400), one between two
  representable ones is rounded to the nearest.
- An output that JSON cannot carry (NaN, an infinity, bytes that are no UTF-8) is refused as JSON (406), not altered.
- BOOL takes true, false, 1 and 0; a BOOL byte is 0 or 1. Answers say true and false.

The same over gRPC: `test_same_on_http_and_grpc.py`.
"""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http

from guepard.core.datatypes import DATATYPES
from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services.identities import onnx_identities

PYTHON_MODELS = Path("tests/services/python_models.py")


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    python = {"non_finite": "NonFinite", "booleans": "Booleans", "writes_on_inputs": "WritesOnInputs"}
    return serve(*onnx_identities(models), *[f"{name}={PYTHON_MODELS}:{entry}" for name, entry in python.items()])


def send(server: RunningServer, datatype: str, data: Any, **fields: Any) -> Answer:
    """One row of `data` as JSON to the identity of `datatype`."""
    given = {"name": "x", "shape": [1, len(data)], "datatype": datatype, "data": data}
    return server.infer(f"ident_{datatype.lower()}", {"inputs": [given]} | fields)


def send_bytes(server: RunningServer, datatype: str, count: int, data: bytes, **parameters: Any) -> Answer:
    """One row of `count` elements as bytes. Asks for the answer in bytes."""
    given = {"name": "x", "shape": [1, count], "datatype": datatype, "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [given], "parameters": {"binary_data_output": True} | parameters}).encode()
    path = f"/v2/models/ident_{datatype.lower()}/infer"
    return server.request("POST", path, head + data, {"Inference-Header-Content-Length": str(len(head))})


def values(answer: Answer) -> list[Any]:
    """The values of the only output of an answer in JSON, which a strict parser has read."""
    assert answer.status == 200, answer.body
    document = json.loads(answer.body, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    (output,) = document["outputs"]
    assert len(output["data"]) == int(np.prod(output["shape"]))
    data: list[Any] = output["data"]
    return data


def output_bytes(answer: Answer) -> bytes:
    """What follows the JSON part of an answer."""
    assert answer.status == 200, answer.body
    return answer.body[int(answer.headers["inference-header-content-length"]) :]


def refused(answer: Answer, *fragments: str, status: int = 400) -> None:
    assert answer.status == status, answer.body
    assert all(fragment in answer.json["error"] for fragment in fragments), answer.json["error"]


# Numbers that do not fit


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("UINT8", 256),
        ("UINT8", -1),
        ("INT8", -129),
        ("INT8", 128),
        ("UINT16", 65_536),
        ("INT16", -32_769),
        ("UINT32", 2**32),
        ("INT32", 2**31),
        ("INT32", -(2**31) - 1),
        ("INT64", 2**63),
        ("UINT64", 2**64),
        ("UINT64", -1),
        ("INT32", 1.5),
        ("INT32", 1e3),
        ("INT32", "3"),
        ("INT32", True),
        ("INT32", None),
        ("INT64", 1e30),
        ("FP32", 1e39),
        ("FP32", -1e300),
        ("FP16", 70_000.0),
        ("FP16", -65_520),
        ("BF16", 3.4e38),
        ("FP32", "1.5"),
        ("FP64", True),
        ("FP32", {"b64": "AA=="}),
        ("BYTES", 1),
        ("BYTES", {"b64": "AA=="}),
    ],
)
def test_a_value_that_its_datatype_cannot_hold_is_refused(server: RunningServer, datatype: str, value: Any) -> None:
    """triton-inference-server/server#8821: 256 became 0 in a UINT8 input."""
    refused(send(server, datatype, [value]), "'x'", "data")
    filler = "a" if datatype == "BYTES" else 1
    refused(send(server, datatype, [filler] * 5 + [value]), "'x'", "data[5]")


@pytest.mark.parametrize(
    "number", ["1e400", "-1e999", "1" + "0" * 400, "1" + "0" * 6000, "NaN", "Infinity", "-Infinity"]
)
@pytest.mark.parametrize("datatype", ["FP16", "FP32", "FP64", "BF16", "INT64", "UINT64"])
def test_a_number_that_nothing_can_hold_is_refused(server: RunningServer, datatype: str, number: str) -> None:
    body = f'{{"inputs":[{{"name":"x","shape":[1,1],"datatype":"{datatype}","data":[{number}]}}]}}'
    answer = server.request("POST", f"/v2/models/ident_{datatype.lower()}/infer", body)
    refused(answer)
    assert 0 < len(answer.json["error"]) < 500


@pytest.mark.parametrize(
    ("datatype", "data"),
    [
        ("UINT8", [0, 255]),
        ("UINT16", [0, 65_535]),
        ("UINT32", [0, 2**32 - 1]),
        ("UINT64", [0, 2**63, 2**64 - 1, 2**53 + 1]),
        ("INT8", [-128, 127]),
        ("INT16", [-32_768, 32_767]),
        ("INT32", [-(2**31), 2**31 - 1]),
        ("INT64", [-(2**63), 2**63 - 1, 2**53 + 1, -(2**53) - 1]),
        ("FP16", [65_504.0, -65_504.0, 2.0**-24, 0.0]),
        ("FP32", [3.4028234663852886e38, -1.401298464324817e-45, 16_777_216.0]),
        ("FP64", [1.7976931348623157e308, 5e-324, 0.1]),
        ("BF16", [3.3895313892515355e38, -1.5]),
    ],
)
def test_the_limits_themselves_come_back(server: RunningServer, datatype: str, data: list[Any]) -> None:
    dtype = np.float32 if datatype in ("BF16", "FP16", "FP32") else object
    assert np.array(values(send(server, datatype, data)), dtype).tolist() == np.array(data, dtype).tolist()


@pytest.mark.parametrize(
    ("datatype", "sent", "expected"),
    [
        ("FP16", 65_519.0, 65_504.0),
        ("FP16", 0.1, float(np.float16(0.1))),
        ("FP32", 0.1, float(np.float32(0.1))),
        ("FP32", 1, 1.0),
        ("FP32", 16_777_217, 16_777_216.0),
        ("FP32", 1e-60, 0.0),
        ("BF16", 1.003, 1.0),
        ("BF16", 1.006, 1.0078125),
    ],
)
def test_a_number_between_two_others_is_rounded_to_the_nearest(
    server: RunningServer, datatype: str, sent: Any, expected: float
) -> None:
    (back,) = values(send(server, datatype, [sent]))
    assert np.float32(back) == np.float32(expected)


def test_minus_zero_keeps_its_sign(server: RunningServer) -> None:
    for datatype in ("FP16", "FP32", "FP64", "BF16"):
        assert str(values(send(server, datatype, [-0.0]))[0]) == "-0.0"


# Numbers that JSON does not have


def test_an_output_that_json_cannot_carry_is_refused_as_json_and_exact_as_bytes(server: RunningServer) -> None:
    """openvinotoolkit/model_server#4337: the NaN was left out, and what followed it moved."""
    body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [7]}]}
    refused(server.infer("non_finite", body), "output 'y'", "NaN", "binary", status=406)
    answer = server.infer("non_finite", body | {"outputs": [{"name": "y", "parameters": {"binary_data": True}}]})
    assert output_bytes(answer) == np.array([1, np.nan, np.inf, -np.inf, 2], np.float32).tobytes()
    assert values(server.infer("non_finite", body | {"outputs": [{"name": "x"}]})) == [7.0]
    mixed = [{"name": "y", "parameters": {"binary_data": True}}, {"name": "x"}]
    answer = server.infer("non_finite", body | {"outputs": mixed})
    length = int(answer.headers["inference-header-content-length"])
    assert json.loads(answer.body[:length])["outputs"][1]["data"] == [7.0]
    assert len(answer.body) - length == 20


@pytest.mark.parametrize(
    ("datatype", "patterns"),
    [
        ("FP16", [0x7E00, 0x7C01, 0xFC00, 0x7C00, 0x8000]),
        ("BF16", [0x7FC0, 0x7F81, 0xFF80, 0x7F80, 0x8000]),
        ("FP32", [0x7FC00000, 0x7F800001, 0xFF800000, 0x7F800000, 0x80000000]),
        ("FP64", [0x7FF8 << 48, (0x7FF0 << 48) + 1, 0xFFF0 << 48, 0x7FF0 << 48, 1 << 63]),
    ],
)
def test_nan_infinities_and_signs_pass_bit_for_bit_as_bytes(
    server: RunningServer, datatype: str, patterns: list[int]
) -> None:
    """Signalling NaNs included: nothing computes with what it only carries."""
    data = np.array(patterns, f"<u{DATATYPES[datatype].size}").tobytes()
    assert output_bytes(send_bytes(server, datatype, len(patterns), data)) == data
    refused(send_bytes(server, datatype, len(patterns), data, binary_data_output=False), "'y'", "binary", status=406)


# Half floats


def test_half_floats_as_json_and_as_bytes(server: RunningServer) -> None:
    """triton-inference-server/server#5960: FP16 could not be sent as JSON, nor its answers be read."""
    assert values(send(server, "FP16", [1.5])) == [1.5]
    assert output_bytes(send_bytes(server, "FP16", 1, b"\x00\x3e")) == b"\x00\x3e"
    assert values(send_bytes(server, "FP16", 1, b"\x00\x3e", binary_data_output=False)) == [1.5]
    answer = send(server, "FP16", [1.5], parameters={"binary_data_output": True})
    assert output_bytes(answer) == b"\x00\x3e"
    refused(send(server, "FP16", [70_000.0]), "'x'", "data[0]", "65520")


def test_brain_floats_as_json_and_as_bytes(server: RunningServer) -> None:
    assert values(send(server, "BF16", [1.5])) == [1.5]
    assert output_bytes(send_bytes(server, "BF16", 1, b"\xc0\x3f")) == b"\xc0\x3f"
    assert values(send_bytes(server, "BF16", 1, b"\xc0\x3f", binary_data_output=False)) == [1.5]


# Byte strings

TEXTS = ["hello", "", 'a,b\n"q"', "😀"]


def packed(texts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


@pytest.mark.parametrize("shape", [[1, 4], [2, 2], [4, 1]])
@pytest.mark.parametrize("binary_out", [False, True], ids=["JSON out", "binary out"])
@pytest.mark.parametrize("form", ["flat", "nested", "binary"])
def test_text_passes_in_every_form(server: RunningServer, shape: list[int], binary_out: bool, form: str) -> None:
    """ai-dynamo/dynamo#14519: byte strings were reshaped as numbers, the empty one included."""
    given: dict[str, Any] = {"name": "x", "shape": shape, "datatype": "BYTES"}
    data, headers = b"", {}
    if form == "binary":
        data = packed([text.encode() for text in TEXTS])
        given["parameters"] = {"binary_data_size": len(data)}
    else:
        given["data"] = TEXTS if form == "flat" else np.array(TEXTS, object).reshape(shape).tolist()
    head = json.dumps({"inputs": [given], "parameters": {"binary_data_output": binary_out}}).encode()
    if data:
        headers["Inference-Header-Content-Length"] = str(len(head))
    answer = server.request("POST", "/v2/models/ident_bytes/infer", head + data, headers)
    if binary_out:
        assert output_bytes(answer) == packed([text.encode() for text in TEXTS])
    else:
        assert values(answer) == TEXTS
        assert answer.json["outputs"][0]["shape"] == shape


@pytest.mark.parametrize("data", [b"\xff", b"\xc3", b"ok\x80"])
def test_bytes_that_are_no_text_are_refused_where_the_model_takes_text(server: RunningServer, data: bytes) -> None:
    answer = send_bytes(server, "BYTES", 1, packed([data]))
    refused(answer, "input 'x'", "not valid UTF-8")


@pytest.mark.parametrize(
    "data",
    [b"\x05\x00\x00\x00abc", b"\xff\xff\xff\xff", b"\x01\x00\x00", packed([b"a"]) + b"\x00", packed([b"a", b"b"]), b""],
)
def test_lengths_that_lie_are_refused(server: RunningServer, data: bytes) -> None:
    refused(send_bytes(server, "BYTES", 1, data), "input 'x'")
    assert values(send(server, "BYTES", ["still here"])) == ["still here"]


# Booleans


def test_booleans(server: RunningServer) -> None:
    """openvinotoolkit/model_server#4338: true and false were refused as "not an array"."""
    for data in ([True, False], [1, 0], [True, 0]):
        assert values(send(server, "BOOL", data)) == [True, False]
        assert b'"data":[true,false]' in send(server, "BOOL", data).body
    assert output_bytes(send_bytes(server, "BOOL", 2, b"\x01\x00")) == b"\x01\x00"
    assert values(send_bytes(server, "BOOL", 2, b"\x01\x00", binary_data_output=False)) == [True, False]


@pytest.mark.parametrize("value", ["true", "", 2, -1, 1.0, 0.5, None, {}])
def test_what_is_no_boolean_is_refused(server: RunningServer, value: Any) -> None:
    refused(send(server, "BOOL", [value]), "'x'", "data")


@pytest.mark.parametrize("byte", [2, 0x80, 0xFF])
def test_a_byte_that_is_no_boolean_is_refused(server: RunningServer, byte: int) -> None:
    refused(send_bytes(server, "BOOL", 3, bytes([1, byte, 0])), "input 'x'", "0 or 1")


@pytest.mark.parametrize("form", ["array", "numpy bools", "Python bools"])
def test_a_python_model_may_return_booleans_of_any_make(server: RunningServer, form: str) -> None:
    """triton-inference-server/server#2500: np.bool_ failed where bool worked."""
    body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}], "parameters": {"form": form}}
    assert values(server.infer("booleans", body)) == [True, False]


def test_integers_are_not_taken_for_booleans(server: RunningServer) -> None:
    body = {
        "inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}],
        "parameters": {"form": "int8 array"},
    }
    refused(server.infer("booleans", body), "output 'y'", "declared BOOL", "int8", status=500)


# Models that write on what they are given


@pytest.mark.parametrize("form", ["JSON", "JSON with a header length", "binary"])
def test_what_a_model_writes_on_its_inputs_is_gone_with_the_request(server: RunningServer, form: str) -> None:
    """The same request again gets the same answer, in whichever form it comes."""
    given: dict[str, Any] = {"name": "x", "shape": [1, 2], "datatype": "FP32"}
    data, headers = b"", {}
    if form == "binary":
        data = np.array([1, 2], np.float32).tobytes()
        given["parameters"] = {"binary_data_size": len(data)}
    else:
        given["data"] = [1, 2]
    head = json.dumps({"inputs": [given]}).encode()
    if form != "JSON":
        headers["Inference-Header-Content-Length"] = str(len(head))
    for _ in range(3):
        answer = server.request("POST", "/v2/models/writes_on_inputs/infer", head + data, headers)
        assert values(answer) == [2.0, 3.0]


# Every datatype through the public client, large and small


@pytest.mark.parametrize("rows", [1, 3, 200], ids=["one row", "a few", "more than a batch"])
@pytest.mark.parametrize("datatype", [name for name in DATATYPES if name not in ("BYTES", "BF16")])
def test_random_bits_pass_unharmed(server: RunningServer, datatype: str, rows: int) -> None:
    random = np.random.default_rng(rows)
    dtype = DATATYPES[datatype].dtype
    bits = random.integers(0, 256, (rows, 50 * dtype.itemsize), dtype=np.uint8)
    array = (bits % 2).astype(bool) if datatype == "BOOL" else bits.view(dtype)
    with tritonclient.http.InferenceServerClient(server.address) as client:
        given = tritonclient.http.InferInput("x", list(array.shape), datatype)
        given.set_data_from_numpy(array)
        back = client.infer(f"ident_{datatype.lower()}", [given]).as_numpy("y")
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()

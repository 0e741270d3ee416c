"""Calls as bytes, read back with the server's own codecs; unique ones differ and still are valid."""

from collections.abc import Callable, Sequence
from itertools import islice, product

import numpy as np
import orjson
import pytest

from guepard.bench.targets.model_metadata import InputMetadata, ModelMetadata
from guepard.bench.targets.predict_samples import PredictReader
from guepard.bench.targets.random_tensors import random_tensor
from guepard.bench.targets.sample_files import Sample
from guepard.bench.targets.tensor_bodies import Body, binary_body, grpc_message, json_body, predict_body
from guepard.bench.targets.tensor_call import TensorCall
from guepard.core.datatypes import DATATYPES
from guepard.core.errors import ConfigurationError
from guepard.core.response import NOBODY
from guepard.core.tensor import Array, Tensor
from guepard.measure.load.corpus import payloads_of
from guepard.measure.load.plan import Payload, PayloadOrder
from guepard.protocols import brain_float, oip_json
from guepard.protocols.grpc_request import RequestReader
from guepard.protocols.oip_binary_head import BinaryHead

Write = Callable[[TensorCall], Body]

_COUNT = 3_000


def generated(*inputs: tuple[str, str, Sequence[int]], number: int = 7) -> TensorCall:
    random = np.random.default_rng((1, number))
    tensors = [random_tensor(random, name, datatype, shape, number) for name, datatype, shape in inputs]
    return TensorCall("random values", tensors, generated=True)


def read_json(body: bytes, call: TensorCall) -> list[Tensor]:
    wire = oip_json.decode(body)
    return [oip_json.tensor(one, "inputs") for one in wire.inputs]


def read_binary(body: bytes, call: TensorCall) -> list[Tensor]:
    length = binary_body(call).json_bytes
    return list(BinaryHead(oip_json.decode(body[:length])).request(body, length, NOBODY, 0).tensors)


def read_message(body: bytes, call: TensorCall) -> list[Tensor]:
    read = RequestReader().read(body)
    assert (read.head.model_name, read.head.model_version) == ("m", "3")
    return list(read.head.request(read.message, read.spans, NOBODY, 0).tensors)


def read_predict(body: bytes, call: TensorCall) -> list[Tensor]:
    model = ModelMetadata(
        "m", None, tuple(InputMetadata(one.name, one.datatype, one.array.shape) for one in call.tensors)
    )
    return list(PredictReader(model).read(Sample("body", body)))


def write_message(call: TensorCall) -> Body:
    return grpc_message(call, "m", "3")


FORMS = {
    "json": (json_body, read_json),
    "binary": (binary_body, read_binary),
    "grpc": (write_message, read_message),
    "predict": (predict_body, read_predict),
}


def values(tensor: Tensor) -> Array:
    return brain_float.to_float32(tensor.array) if tensor.datatype == "BF16" else tensor.array


@pytest.mark.parametrize(
    ("form", "dims"),
    [
        *product(FORMS, [(2, 9), (9,), (1, 2, 9), ()]),
        *product(("json", "binary", "grpc"), [(0, 2)]),  # to predict, rows that are not there show no shape
    ],
)
def test_every_datatype_arrives_as_it_was(form: str, dims: Sequence[int]) -> None:
    write, read = FORMS[form]
    call = generated(*((name.lower(), name, dims) for name in DATATYPES))
    for sent, came in zip(call.tensors, read(write(call).data, call), strict=True):
        assert (came.name, came.datatype, came.array.shape) == (sent.name, sent.datatype, tuple(dims))
        assert np.array_equal(came.array, sent.array) or (
            # what is a tenth in text is rounded once more on its way back
            sent.datatype in ("FP16", "BF16") and np.allclose(values(came), values(sent), rtol=0.01)
        )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("datatype", [name for name in DATATYPES if name != "BOOL"])
def test_unique_payloads_differ_as_tensors_and_stay_in_range(datatype: str, form: str) -> None:
    write, read = FORMS[form]
    call = generated(("first", "BOOL", (2, 2)), ("x", datatype, (2, 9)))
    body = write(call)
    assert body.spot is not None
    payloads = (Payload(data=body.data, spot=body.spot),)
    made = payloads_of(payloads, PayloadOrder(kind="unique"), first=0, share=0, shares=1, seed=1)
    seen = set()
    for _, data, _ in islice(made, _COUNT if form != "predict" else 300):
        assert len(data) == len(body.data)
        other, x = read(data, call)
        assert np.array_equal(other.array, call.tensors[0].array)
        assert x.array.shape == (2, 9)
        assert x.array.reshape(-1)[9:].tolist() == call.tensors[1].array.reshape(-1)[9:].tolist()
        if DATATYPES[datatype].kind != "bytes":
            assert values(x).min() >= 0
            assert values(x).max() < {"int": 256, "float": 2}[DATATYPES[datatype].kind]
        seen.add(repr(x.array.tolist()))
    assert len(seen) == (_COUNT if form != "predict" else 300)


@pytest.mark.parametrize("form", FORMS)
def test_what_cannot_be_rewritten_has_no_spot(form: str) -> None:
    write, _ = FORMS[form]
    for call in (
        generated(("x", "BOOL", (1, 9))),
        generated(("x", "INT32", (1, 1))),
        generated(("attention_mask", "INT64", (1, 9))),
        generated(("x", "FP32", (0, 9))),
    ):
        assert write(call).spot is None


@pytest.mark.parametrize("form", FORMS)
def test_floats_are_rewritten_before_ids(form: str) -> None:
    write, read = FORMS[form]
    call = generated(("ids", "INT64", (1, 9)), ("x", "FP32", (1, 2)))
    body = write(call)
    assert body.spot is not None
    changed = bytearray(body.data)
    changed[body.spot.offset] ^= 1
    ids, x = read(bytes(changed), call)
    assert np.array_equal(ids.array, call.tensors[0].array)
    assert not np.array_equal(x.array, call.tensors[1].array)


def test_values_of_a_user_are_sent_to_the_letter_and_rewritten_only_where_decimals_are() -> None:
    given = TensorCall("data.npz row 0", [Tensor("x", "FP32", np.array([[1.5, 0.123456789]], np.float32))])
    for write in (json_body, predict_body):
        body = write(given)
        assert b"1.5,0.12345679" in body.data
        assert body.spot is not None
        assert body.data[body.spot.offset :].startswith(b"1234567")
    few = TensorCall("data.npz row 0", [Tensor("x", "FP32", np.array([[1.5, 2.25]], np.float32))])
    assert json_body(few).spot is None
    assert binary_body(few).spot is not None
    texts = np.empty((1, 1), object)
    texts[0, 0] = b"0.1234567 is text"
    for write in (json_body, predict_body, binary_body, write_message):
        assert write(TensorCall("data.txt", [Tensor("x", "BYTES", texts)])).spot is None


def test_rows_where_all_inputs_have_as_many_and_columns_otherwise() -> None:
    one, two = (Tensor(name, "INT32", np.arange(count, dtype=np.int32)) for name, count in (("a", 2), ("b", 3)))
    same = Tensor("c", "BOOL", np.array([[True], [False]]))
    assert orjson.loads(predict_body(TensorCall("", [one])).data) == {"instances": [0, 1]}
    assert orjson.loads(predict_body(TensorCall("", [one, same])).data) == {
        "instances": [{"a": 0, "c": [True]}, {"a": 1, "c": [False]}]
    }
    assert orjson.loads(predict_body(TensorCall("", [one, two])).data) == {"inputs": {"a": [0, 1], "b": [0, 1, 2]}}
    scalar = Tensor("s", "FP32", np.array(0.5, np.float32))
    assert orjson.loads(predict_body(TensorCall("", [scalar])).data) == {"inputs": 0.5}


def test_parameters_and_outputs_come_along() -> None:
    tensor = Tensor("x", "INT32", np.zeros((1, 1), np.int32))
    call = TensorCall("s", [tensor], {"k": 1, "t": "x", "b": True, "f": 0.5}, ["y"])
    document = orjson.loads(json_body(call).data)
    assert (document["parameters"], document["outputs"]) == (dict(call.parameters), [{"name": "y"}])
    body = binary_body(call)
    head = orjson.loads(body.data[: body.json_bytes])
    assert head["parameters"] == {**call.parameters, "binary_data_output": True}
    request = RequestReader().read(write_message(call).data)
    read = request.head.request(request.message, request.spans, NOBODY, 0)
    assert (dict(read.parameters), read.requested_outputs) == (dict(call.parameters), ("y",))
    with pytest.raises(ConfigurationError, match=r"parameter 'k'.*gRPC carries"):
        write_message(call._replace(parameters={"k": [1]}))


@pytest.mark.parametrize(
    ("datatype", "value", "named"), [("FP32", np.nan, "NaN or an infinity"), ("BYTES", b"\xff", "not UTF-8")]
)
def test_what_json_cannot_carry_is_the_user_s_to_send_otherwise(datatype: str, value: object, named: str) -> None:
    array = np.array([[value]], DATATYPES[datatype].dtype)
    call = TensorCall("data.npz row 3", [Tensor("x", datatype, array)])
    with pytest.raises(ConfigurationError, match=rf"data\.npz row 3: input 'x' holds .*{named}.*oip-binary"):
        json_body(call)
    assert binary_body(call).data.endswith(array.tobytes() if datatype == "FP32" else b"\x01\x00\x00\x00\xff")

"""Whatever fits the protocol comes back over gRPC exactly as it went; whatever does not is refused in words.

Tensors of every datatype, of rank 0 to 4 and without elements too, go in and come out as raw or typed contents.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from guepard.core.datatypes import DATATYPES
from guepard.core.tensor import Array
from guepard.protocols.brain_float import from_float32
from tests.conftest import Serve
from tests.services.drawn_tensors import FLOATS, array_of, examples, shapes, wire_bytes
from tests.services.grpc_calls import (
    CONTENTS,
    add_input,
    array_of_contents,
    call,
    infer_message,
    set_parameter,
    typed_values,
)
from tests.services.identities import every_datatype_at_once, onnx_identities

RANKS = range(5)


class Sent(NamedTuple):
    name: str
    datatype: str
    array: Array


@pytest.fixture(scope="module")
def mixed(serve: Serve, models: Path) -> Iterator[grpc.Channel]:
    server = serve("--config", every_datatype_at_once(models, RANKS))
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield channel


@pytest.fixture(scope="module")
def onnx(serve: Serve, models: Path) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(serve(*onnx_identities(models)).grpc_address) as channel:
        yield channel


def request_of(model: str, tensors: list[Sent], *, raw_in: bool, raw_out: bool) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model)
    for sent in tensors:
        shape = sent.array.shape
        if raw_in:
            add_input(request, sent.name, sent.datatype, shape, raw=wire_bytes(sent.datatype, sent.array))
        else:
            add_input(request, sent.name, sent.datatype, shape, typed=typed_values(sent.datatype, sent.array))
    if not raw_out:
        set_parameter(request.parameters["binary_data_output"], False)
    data: bytes = request.SerializeToString()
    return data


def same(response: Any, tensors: list[Sent], output: dict[str, str], *, raw_out: bool) -> None:
    """Every tensor came back, in order and in the form that was asked for, bit for bit."""
    assert [each.name for each in response.outputs] == [output[sent.name] for sent in tensors]
    assert len(response.raw_output_contents) == (len(tensors) if raw_out else 0)
    for index, (sent, came) in enumerate(zip(tensors, response.outputs, strict=True)):
        assert (came.datatype, tuple(came.shape)) == (sent.datatype, sent.array.shape)
        if raw_out:
            assert not came.HasField("contents")
            assert response.raw_output_contents[index] == wire_bytes(sent.datatype, sent.array)
        else:
            assert is_same(sent, array_of_contents(sent.datatype, came))


def is_same(sent: Sent, values: list[Any]) -> bool:
    """Bit for bit but for NaN, whose bits a float of another width need not keep."""
    if sent.datatype == "BYTES":
        return values == sent.array.ravel().tolist()
    if sent.datatype == "BF16":
        array: Array = from_float32(np.array(values, np.float32))
        patterns = sent.array.ravel()
        is_nan = (patterns & 0x7FFF) > 0x7F80
        return bool(np.array_equal(array[~is_nan], patterns[~is_nan]) and ((array[is_nan] & 0x7FFF) > 0x7F80).all())
    array = np.array(values, DATATYPES[sent.datatype].dtype)
    if sent.datatype not in FLOATS:
        return bool(np.array_equal(array, sent.array.ravel()))
    signs = np.array_equal(np.signbit(array)[~np.isnan(array)], np.signbit(sent.array.ravel())[~np.isnan(array)])
    return bool(np.array_equal(array, sent.array.ravel(), equal_nan=True) and signs)


@st.composite
def requests_of_every_datatype(draw: st.DrawFn) -> tuple[str, list[Sent]]:
    rank = draw(st.sampled_from(RANKS))
    order = draw(st.permutations(list(DATATYPES)))
    arrays = [draw(array_of(datatype, draw(shapes(rank)), plain=False)) for datatype in order]
    return f"rank{rank}", [Sent(name, name, array) for name, array in zip(order, arrays, strict=True)]


@examples
@given(request=requests_of_every_datatype(), raw_in=st.booleans(), raw_out=st.booleans())
def test_every_datatype_in_one_request(
    mixed: grpc.Channel, request: tuple[str, list[Sent]], raw_in: bool, raw_out: bool
) -> None:
    model, tensors = request
    message = request_of(model, tensors, raw_in=raw_in, raw_out=raw_out)
    # The answer has its outputs in the model's order, unless the request names them.
    ordered = sorted(tensors, key=lambda sent: list(DATATYPES).index(sent.name))
    same(call(mixed, message).infer, ordered, {name: name for name in DATATYPES}, raw_out=raw_out)


@st.composite
def tensors_of_rank_2(draw: st.DrawFn) -> Sent:
    datatype = draw(st.sampled_from(list(DATATYPES)))
    return Sent("x", datatype, draw(array_of(datatype, draw(shapes(2)), plain=datatype == "BYTES")))


@examples
@given(sent=tensors_of_rank_2(), raw_in=st.booleans(), raw_out=st.booleans())
def test_one_tensor_through_an_engine(onnx: grpc.Channel, sent: Sent, raw_in: bool, raw_out: bool) -> None:
    message = request_of(f"ident_{sent.datatype.lower()}", [sent], raw_in=raw_in, raw_out=raw_out)
    same(call(onnx, message).infer, [sent], {"x": "y"}, raw_out=raw_out)


@examples
@given(
    datatype=st.sampled_from(list(DATATYPES)),
    shape=st.lists(st.integers(0, 4), min_size=2, max_size=2),
    data=st.binary(max_size=100),
)
def test_any_bytes_fill_their_shape_or_are_refused(
    onnx: grpc.Channel, datatype: str, shape: list[int], data: bytes
) -> None:
    answer = call(onnx, infer_message(f"ident_{datatype.lower()}", datatype, shape, data))
    if answer.code == "OK":
        assert answer.infer.raw_output_contents[0] == data
    else:
        assert answer.code == "INVALID_ARGUMENT"
        assert "input 'x'" in answer.details


dimensions = st.integers(0, 3) | st.sampled_from([-1, -(2**63), 2**31, 2**62, 2**63 - 1])


@examples
@given(
    datatype=st.sampled_from([*DATATYPES, "fp32", "STRING", ""]),
    model=st.sampled_from([name.lower() for name in DATATYPES]),
    shape=st.lists(dimensions, max_size=4),
    field=st.sampled_from(sorted(set(CONTENTS.values()))),
    count=st.integers(0, 6),
    raw=st.lists(st.binary(max_size=20), max_size=2),
)
def test_what_fits_nothing_is_refused_in_words(
    onnx: grpc.Channel, datatype: str, model: str, shape: list[int], field: str, count: int, raw: list[bytes]
) -> None:
    request = service_pb2.ModelInferRequest(model_name=f"ident_{model}", raw_input_contents=raw)
    tensor = request.inputs.add(name="x", datatype=datatype, shape=shape)
    getattr(tensor.contents, field).extend([b"a" if field == "bytes_contents" else 1] * count)
    answer = call(onnx, request.SerializeToString())
    if answer.code == "OK":  # by chance it was right after all
        (came,) = answer.infer.outputs
        assert (came.datatype, list(came.shape)) == (datatype, shape)
        return
    assert answer.code == "INVALID_ARGUMENT"
    assert len(answer.details) > 5

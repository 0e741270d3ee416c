"""Long bodies are answered as short ones are: the same tensors, or the same words about what is wrong."""

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.core.errors import GuepardError
from guepard.core.response import NOBODY
from guepard.core.tensor import TensorSpec
from guepard.protocols import large_arrays, number_text
from guepard.protocols.large_arrays import LONG, find_large_arrays
from guepard.protocols.oip_codec import OipCodec
from guepard.protocols.v1_json import V1Codec
from tests.unit.protocols.requests import config_of

X, Y = TensorSpec("x", "FP32", [-1]), TensorSpec("y", "INT64", [2, -1], optional=True)


@pytest.fixture(autouse=True)
def everything_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_arrays, "LONG", 8)


def outcome(decode: Any) -> Any:
    try:
        request = decode()
    except GuepardError as error:
        return type(error), error.message
    tensors = [
        (tensor.name, tensor.datatype, tensor.array.dtype, tensor.array.shape, tensor.array.tobytes())
        for tensor in request.tensors
    ]
    return tensors, request.id, request.parameters, request.requested_outputs, request.reply_format


def both(codec: OipCodec | V1Codec, body: bytes) -> Any:
    plain = outcome(lambda: codec.decode_json(body, NOBODY, 0))
    assert outcome(lambda: codec.decode_large(body, NOBODY, 0, lambda: None)) == plain, body
    return plain


V2 = [
    '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4.5]}]}',
    '{"id":"7","inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data" : [[1,2],[3,4]] }],"outputs":[]}',
    '{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[[1,2],[3]]}]}',
    '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"INT8","data":[1,2,3,400]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP99","data":[1,2,3,400]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4],"data":[5,6,7,8]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4],"d\\u0061ta":[5,6,7,8]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4],"d\\u0061ta":[-7e-307,0]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4],"other":[5,6,7,8]}]}',
    '{"inputs":[{"name":"x:[1,2,3,4]","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}',
    '{"inputs":[{"name":":[1,2,3,4,5]","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4],"parameters":{"a":1}}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","parameters":{"binary_data_size":4},"data":[1,2,3,4]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]},{"name":"y","shape":[2],"datatype":"BYTES","data":["a","b"]}],"parameters":{"timeout":5}}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]},{"name":"y","shape":[4],"datatype":"BF16","data":[5,6,7,8e0]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}  x',
    '{"inputs":[{"name":"x","shape":[],"datatype":"FP32","data":[1234.567]}]}',
    '{"inputs":[{"name":"x","shape":[9223372036854775807,4],"datatype":"FP32","data":[1,2,3,4]}]}',
    '{"inputs":[{"name":"x","shape":[4],"datatype":"BOOL","data":[true,false,1,0]}]}',
    '{"parameters":{"a":[1,2,3,4,5]},"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}',
]  # fmt: skip

V1 = [
    '{"instances":[[1,2,3],[4,5,6]]}',
    '{"instances": [[1,2,3],[4,5]] }',
    '{"instances":[1,2,3,4,5,6]}',
    '{"inputs":[[1,2,3],[4,5,6]],"signature_name":"serving_default"}',
    '{"inputs":{"x":[[1,2,3],[4,5,6]]},"parameters":{"timeout":5}}',
    '{"inputs":{"x":[[1,2,3],[4,5,6]],"y":[[[1,2],[3,4]],[[5,6],[7,8]]]}}',
    '{"inputs":{"x":[[1,2,3],[4,5,6]],"x":[[1,2,3],[4,5,7]]}}',
    '{"inputs":{"x":[[1,2,3],[4,5,6]],"z":[[1,2,3],[4,5,7]]}}',
    '{"instances":[{"x":[1,2,3,4]},{"x":[5,6,7,8]}]}',
    '{"instances":[[1,2,3],[4,5,6]],"inputs":[[1,2,3],[4,5,6]]}',
    '{"instances":[[1,2,3],[4,5,6]],"signature_name":"other"}',
    '{"instances":[[1,2,3],[4,5,6e99]]}',
    '{"instances":[[1,2,3],[4,5,null]]}',
    '{"instances":[[1,2,3],[4,5,6]]',
    '{"instances":[[],[],[],[]]}',
]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("body", V2)
def test_v2_bodies(body: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(number_text, "_compiled", None)
    both(OipCodec(config_of([X])), body.encode())


@pytest.mark.parametrize("specs", [[X], [X, Y]])
@pytest.mark.parametrize("body", V1)
def test_predict_bodies(body: str, specs: list[TensorSpec]) -> None:
    both(V1Codec(config_of(specs)), body.encode())


@given(st.data())
def test_bodies_that_were_tampered_with(data: st.DataObject) -> None:
    body = bytearray(data.draw(st.sampled_from(V2 + V1)).encode())
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        with_what = data.draw(
            st.sampled_from([b"", b",", b"[", b"]", b'"', b"}", b" ", b"0", b"-", b"e", b"\\", b"\xff"])
        )
        body[place : place + data.draw(st.integers(0, 2))] = with_what
    for codec in (OipCodec(config_of([X])), V1Codec(config_of([X])), V1Codec(config_of([X, Y]))):
        both(codec, bytes(body))


@pytest.mark.parametrize("body", [V2[0], V2[1], V2[-2], V1[0], V1[3], V1[4]])
def test_no_long_body_that_is_right_is_read_as_a_whole(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = (OipCodec if "datatype" in body else V1Codec)(config_of([X]))
    monkeypatch.setattr(type(codec), "decode_json", None)
    assert len(codec.decode_large(body.encode(), NOBODY, 0, lambda: None).tensors) == 1


def test_the_rest_of_a_body_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_arrays, "LONG", LONG)
    numbers = orjson.dumps(np.arange(200_000).tolist())
    text = b'{"a":"%b","data": %b, "more":"%b","data":%b}' % (b"s" * 100_000, numbers, b"t" * 99, numbers)
    found = find_large_arrays(memoryview(text))
    assert found is not None
    assert [bytes(array) for array in found.arrays] == [numbers, numbers]
    assert len(found.rest) < 101_000
    assert find_large_arrays(b'{"data":"%b"}' % (b"s" * 100_000)) is None
    assert find_large_arrays(b"[" + b"{}," * 100_000) is None

"""Long answers in JSON: the slices together are what the short way writes."""

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from guepard.core.errors import NotAcceptable
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY, InferenceResponse
from guepard.core.tensor import TensorSpec
from guepard.protocols import oip_json
from guepard.protocols.large_json import LARGE, LargeJson, rows_of
from guepard.protocols.oip_codec import OipCodec
from guepard.protocols.reply_format import JSON
from tests.unit.engine.configs import model_config

RANDOM = np.random.default_rng(0)


def text(datatype: str, array: NDArray[Any]) -> bytes:
    """The slices of `array` together, without what stands around them."""
    large = LargeJson([b'{"data":', b"[", rows_of(TensorSpec("y", datatype, [-1]), array, flat=True), b"]", b"}"])
    for _ in large.check():
        pass
    pieces = list(large.text())
    assert all(len(piece) <= 400_000 for piece in pieces)
    whole = b"".join(pieces)
    assert whole.startswith(b'{"data":[')
    assert whole.endswith(b"]}")
    return whole[len(b'{"data":') : -1]


def strings(elements: list[bytes]) -> NDArray[Any]:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


@pytest.mark.parametrize("count", [0, 1, 16_384, 16_385, 50_000])
@pytest.mark.parametrize("datatype", ["FP32", "FP64", "FP16", "INT8", "UINT64", "BOOL", "BF16"])
def test_numbers_in_slices(datatype: str, count: int) -> None:
    spec = TensorSpec("y", datatype, [-1])
    array = RANDOM.integers(0, 2 if datatype == "BOOL" else 100, count).astype(spec.datatype.dtype)
    if datatype in ("FP32", "FP64"):
        array = array / spec.datatype.dtype.type(7)
    assert text(datatype, array) == oip_json.encode_array(spec, array.reshape(-1))


def test_numbers_that_do_not_lie_in_a_row() -> None:
    array = RANDOM.random((300, 200), np.float32).T
    assert text("FP32", array) == oip_json.encode_array(TensorSpec("y", "FP32", [-1]), array.reshape(-1))


CHARACTERS = ["a", '"', "\\", "\n", "\0", "é", "€", "🐆", "\u2028"]


@pytest.mark.parametrize("size", [131_071, 131_072, 131_073, 262_144, 500_000])
@pytest.mark.parametrize("offset", range(4))
def test_a_long_string_is_cut_between_characters(size: int, offset: int) -> None:
    elements = [b"short", b"a" * offset + ("🐆€é\n" * (size // 10)).encode(), b""]
    assert text("BYTES", strings(elements)) == orjson.dumps([element.decode() for element in elements])


@given(st.lists(st.text(st.sampled_from(CHARACTERS), max_size=20), max_size=30), st.integers(1, 400))
def test_strings_in_slices(elements: list[str], times: int) -> None:
    encoded = strings([element.encode() for element in elements] * times)
    assert text("BYTES", encoded) == orjson.dumps(elements * times)


@pytest.mark.parametrize("at", [0, 65_535, 65_536, 199_999])
@pytest.mark.parametrize(("datatype", "bad"), [("FP32", np.nan), ("FP64", -np.inf), ("FP16", np.inf), ("BF16", 0x7F80)])
def test_what_is_no_number_is_found_before_anything_is_written(datatype: str, bad: float, at: int) -> None:
    spec = TensorSpec("y", datatype, [-1])
    array = np.zeros(200_000, spec.datatype.dtype)
    array[at] = bad
    with pytest.raises(NotAcceptable, match="output 'y' holds NaN or an infinity"):
        list(rows_of(spec, array, flat=True).check())


@pytest.mark.parametrize(
    "bad", [b"\xff", b"a" * 131_071 + b"\xe2\x82", b"a" * 200_000 + b"\x80\x80\x80\x80\x80", b"\xed\xa0\x80"]
)
def test_what_is_no_text_is_found_before_anything_is_written(bad: bytes) -> None:
    array = strings([b"good"] * 5_000 + [bad])
    with pytest.raises(NotAcceptable, match="output 'y' holds bytes that are not UTF-8"):
        list(rows_of(TensorSpec("y", "BYTES", [-1]), array, flat=True).check())


def answer(outputs: list[TensorSpec], arrays: list[NDArray[Any]]) -> Any:
    request = InferenceRequest((), NOBODY, 0)
    request.reply_format = JSON
    codec = OipCodec(model_config(outputs=tuple(outputs)))
    return codec.encode(request, InferenceResponse(codec.config, arrays))[1]


@pytest.mark.parametrize("count", [LARGE, LARGE + 1])
def test_the_codec_gives_slices_of_what_is_large(count: int) -> None:
    array = RANDOM.random(count, np.float32)
    body = answer([TensorSpec("y", "FP32", [-1])], [array])
    assert isinstance(body, LargeJson) == (count > LARGE)
    whole = b"".join(body.text() if isinstance(body, LargeJson) else body)
    assert len(orjson.loads(whole)["outputs"][0]["data"]) == count
    expected = b'"data":%b' % oip_json.encode_array(TensorSpec("y", "FP32", [-1]), array)
    assert whole.endswith(expected + b"}]}")


def test_many_outputs_together_and_long_strings_are_large_too() -> None:
    half = np.zeros(LARGE // 2 + 1, np.int64)
    pair = [TensorSpec("a", "INT64", [-1]), TensorSpec("b", "INT64", [-1])]
    body = answer(pair, [half, half])
    assert isinstance(body, LargeJson)
    assert [len(output["data"]) for output in orjson.loads(b"".join(body.text()))["outputs"]] == [half.size] * 2
    long = strings([b"a" * LARGE * 9])
    assert isinstance(answer([TensorSpec("y", "BYTES", [-1])], [long]), LargeJson)
    assert not isinstance(answer([TensorSpec("y", "BYTES", [-1])], [strings([b"a" * 1_000])]), LargeJson)

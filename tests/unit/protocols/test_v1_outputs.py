"""Long predict answers: the slices together are what the short way writes, whatever is refused is refused the same."""

from collections.abc import Iterator, Sequence
from math import prod
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
from guepard.protocols import large_json, v1_outputs
from guepard.protocols.large_json import LARGE, LargeJson
from guepard.protocols.v1_json import PredictForm, V1Codec
from tests.unit.protocols.requests import config_of

Output = tuple[TensorSpec, NDArray[Any]]

RANDOM = np.random.default_rng(0)
FLOATS = ("FP16", "FP32", "FP64", "BF16")
DATATYPES = (*FLOATS, "INT8", "UINT64", "BOOL", "BYTES")
WORDS = [b"", b"a", "é€🐆\n".encode(), b'"\\' * 20, "🐆".encode() * 30]


def strings(elements: list[bytes], shape: Sequence[int]) -> NDArray[Any]:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)


def answer(form: PredictForm, outputs: Sequence[Output]) -> Any:
    codec = V1Codec(config_of([TensorSpec("x", "FP32", [-1])], [spec for spec, _ in outputs], 8))
    request = InferenceRequest((), NOBODY, 0)
    request.reply_format = form
    return codec.encode(request, InferenceResponse(codec.config, [array for _, array in outputs]))[1]


def pieces(body: LargeJson) -> list[bytes]:
    list(body.check())
    return list(body.text())


def both_ways(form: PredictForm, outputs: Sequence[Output], weight: int, text_bytes: int) -> tuple[Any, Any]:
    """The body written in one go, and the one in slices of `weight` and of `text_bytes`; or what was raised."""
    with pytest.MonkeyPatch.context() as patch:
        told: list[bytes | str] = []
        for threshold in (10**12, -1):
            patch.setattr(v1_outputs, "LARGE", threshold)
            patch.setattr("guepard.protocols.v1_json.SMALL", threshold)
            patch.setattr(v1_outputs, "SMALL", threshold)
            patch.setattr(large_json, "_WEIGHT", weight)
            patch.setattr(large_json, "_CHECKED", weight)
            patch.setattr(large_json, "_STRINGS", weight)
            patch.setattr(large_json, "TEXT_BYTES", text_bytes)
            patch.setattr(v1_outputs, "_BASE64_PART", max(text_bytes // 3 * 3, 3))
            try:
                body = answer(form, outputs)
                assert isinstance(body, LargeJson) is (threshold < 0)
                told.append(b"".join(pieces(body) if isinstance(body, LargeJson) else body))
            except NotAcceptable as error:
                told.append(error.message)
    return told[0], told[1]


@st.composite
def an_output(draw: st.DrawFn, index: int, rows: int | None) -> Output:
    datatype = draw(st.sampled_from(DATATYPES))
    inner = draw(st.lists(st.integers(0, 5), max_size=3))
    shape = inner if rows is None else [rows, *inner]
    spec = TensorSpec(f"y{index}{draw(st.sampled_from(['', '_bytes', 'é']))}", datatype, [])
    count = prod(shape)
    if datatype == "BYTES":
        words = draw(
            st.lists(st.sampled_from([*WORDS, b"\xff"] if draw(st.integers(0, 9)) == 0 else WORDS), min_size=1)
        )
        return spec, strings((words * (count // len(words) + 1))[:count], shape)
    array = (RANDOM.random(count) * 200).astype(spec.datatype.dtype)
    if datatype == "BF16":
        array = (RANDOM.random(count).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if datatype in FLOATS and count and draw(st.integers(0, 9)) == 0:
        array[draw(st.integers(0, count - 1))] = 0x7F80 if datatype == "BF16" else np.nan
    return spec, array.reshape(shape)


@st.composite
def an_answer(draw: st.DrawFn) -> tuple[PredictForm, list[Output]]:
    form = draw(st.sampled_from(PredictForm))
    rows = draw(st.integers(0, 9)) if form is PredictForm.ROWS else None
    return form, [draw(an_output(index, rows)) for index in range(draw(st.integers(1, 3)))]


@given(an_answer(), st.sampled_from([16, 17, 40, 100, 1_000]), st.sampled_from([4, 30, 1_000]))
def test_slices_are_what_one_go_writes(made: tuple[PredictForm, list[Output]], weight: int, text_bytes: int) -> None:
    whole, sliced = both_ways(*made, weight, text_bytes)
    assert sliced == whole


FP32 = TensorSpec("y", "FP32", [])
BYTES = TensorSpec("t", "BYTES", [])
BASE64 = TensorSpec("t_bytes", "BYTES", [])
MANY = [b"word"] * 100_000


def outputs_of_many_elements() -> Iterator[tuple[PredictForm, list[Output]]]:
    numbers = RANDOM.random(1_000_000, np.float32)
    for shape in [(1, 1_000_000), (100_000, 10), (1_000, 1_000), (1_000_000, 1), (1, 5, 200_000)]:
        for form in PredictForm:
            yield form, [(FP32, numbers.reshape(shape))]
    for spec in (BYTES, BASE64):
        for shape in [(1, 100_000), (50_000, 2), (100_000,)]:
            yield PredictForm.ROWS, [(spec, strings(MANY, shape))]
        yield PredictForm.ROWS, [(spec, strings([b"a" * 3_000_000, b"b", b"c" * 200_000], (3, 1)))]
        yield PredictForm.COLUMNS, [(spec, strings(["🐆".encode() * 500_000], ()))]
    for form in PredictForm:
        yield form, [(FP32, numbers[:100_000]), (BYTES, strings(MANY, (100_000,)))]
        yield form, [(FP32, numbers[:300_000].reshape(3, 100_000)), (BASE64, strings(MANY[:3], (3,)))]
        yield form, [(FP32, np.zeros((100_000, 0), np.float32)), (BYTES, strings(MANY, (100_000,)))]
    yield PredictForm.ROWS, [(FP32, np.zeros((100_000, 0), np.float32))]


@pytest.mark.parametrize("at", range(sum(1 for _ in outputs_of_many_elements())))
def test_no_slice_of_a_large_answer_is_long(at: int) -> None:
    form, outputs = list(outputs_of_many_elements())[at]
    body = answer(form, outputs)
    assert isinstance(body, LargeJson)
    made = pieces(body)
    assert max(map(len, made)) <= 400_000
    assert len(made) <= 100_000 // 300
    specs, arrays = [spec for spec, _ in outputs], [array for _, array in outputs]
    texts = [v1_outputs.encode_output(spec, array) for spec, array in outputs]
    if len(outputs) == 1:
        expected = b'{"%b":%b}' % (b"predictions" if form is PredictForm.ROWS else b"outputs", texts[0])
    elif form is PredictForm.ROWS:
        expected = b'{"predictions":%b}' % v1_outputs.encode_objects(specs, arrays)
    else:
        members = b",".join(b"%b:%b" % (orjson.dumps(spec.name), text) for spec, text in zip(specs, texts, strict=True))
        expected = b'{"outputs":{%b}}' % members
    assert b"".join(made) == expected


@pytest.mark.parametrize("count", [LARGE - 2, LARGE + 1])
@pytest.mark.parametrize("form", list(PredictForm))
def test_small_answers_stay_whole(form: PredictForm, count: int) -> None:
    array = np.zeros((1, count), np.float32)
    assert isinstance(answer(form, [(FP32, array)]), LargeJson) is (count > LARGE)
    beside = [(FP32, array), (BYTES, strings([b"x"], (1,)))]
    assert isinstance(answer(form, beside), LargeJson)
    assert not isinstance(answer(form, [(FP32, array[:, :30_000]), *beside[1:]]), LargeJson)


@pytest.mark.parametrize("form", list(PredictForm))
@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ((FP32, np.array([[0.0] * 100_000 + [np.inf]], np.float32)), "output 'y' holds NaN or an infinity"),
        ((BYTES, strings([b"a" * 1_000_000 + b"\xff"], (1,))), "output 't' holds bytes that are not UTF-8"),
    ],
)
@pytest.mark.parametrize("more", [[], [(TensorSpec("z", "INT8", []), np.array([1], np.int8))]])
def test_what_json_cannot_carry_is_found_beforehand(
    form: PredictForm, bad: Output, problem: str, more: list[Output]
) -> None:
    body = answer(form, [bad, *more])
    assert isinstance(body, LargeJson)
    with pytest.raises(NotAcceptable, match=problem):
        list(body.check())

"""Whatever the fast ways take, they take as the reader of all messages does; the rest they leave to it."""

import math
import struct
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError
from guepard.core.tensor import Array
from guepard.protocols import number_text
from guepard.protocols.number_text import read_numbers
from guepard.protocols.oip_json import tensor_from_raw

NUMERIC = [name for name in DATATYPES if name != "BYTES"]

needs_compiled = pytest.mark.skipif(number_text._compiled is None, reason="the compiled part is not built here")


@pytest.fixture(params=[pytest.param("compiled", marks=needs_compiled), "pieces"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pieces":
        monkeypatch.setattr(number_text, "_compiled", None)
    return str(request.param)


def by(way: str, text: bytes, datatype: str, shape: list[int], flat: bool = True) -> Array | None:
    dims = (math.prod(shape),) if flat else tuple(shape)
    if way == "pieces":
        return number_text._read_pieces(memoryview(text), datatype, dims, lambda: None)
    compiled = number_text._compiled
    assert compiled is not None
    return number_text._read_compiled(compiled, memoryview(text), datatype, dims)


def slow(text: bytes, datatype: str, shape: list[int]) -> Array | None:
    try:
        return tensor_from_raw("x", datatype, shape, msgspec.Raw(text), "inputs[0]").array
    except InputError:
        return None


WAYS = ["pieces", *(["compiled"] if number_text._compiled is not None else [])]

digits = st.text("0123456789", min_size=1, max_size=24)
spelled = st.one_of(
    st.builds(
        "".join,
        st.tuples(
            st.sampled_from(["", "", "-"]),
            digits | st.sampled_from(["0", "1", "255", "65520", "9007199254740993", "18446744073709551615"]),
            st.just("") | digits.map(".{}".format),
            st.just("")
            | st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), digits)
            | st.integers(-330, 310).map("e{}".format),
        ),
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**64), 2**65).map(str),
    st.integers(-200, 300).map(str),
    st.sampled_from(
        [
            "true",
            "false",
            "null",
            "NaN",
            "Infinity",
            "-",
            "1.",
            ".5",
            "+1",
            "01",
            "0x1",
            "1e",
            "-0",
            "-0.0",
            "tru",
            '"1"',
            "",
            "1 2",
        ]
    ),
)
spaces = st.sampled_from(["", "", "", " ", "\n\t", "\r ", "\f"])


@given(st.data())
def test_what_is_taken_is_what_the_slow_way_gives(data: st.DataObject) -> None:
    numbers = data.draw(st.lists(spelled, min_size=1, max_size=4))
    spaced = [data.draw(spaces) + number + data.draw(spaces) for number in numbers]
    text = f"[{','.join(spaced)}]".encode()
    for datatype in NUMERIC:
        expected = slow(text, datatype, [len(numbers)])
        for way in WAYS:
            found = by(way, text, datatype, [len(numbers)])
            assert found is None or (expected is not None and found.tobytes() == expected.tobytes()), (way, datatype)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
@example([5e-324, 2.2250738585072011e-308, 2.2250738585072014e-308, 1.7976931348623157e308, 9007199254740993.0])
def test_every_double_is_read_exactly(numbers: list[float]) -> None:
    for way in WAYS:
        found = by(way, orjson.dumps(numbers), "FP64", [len(numbers)])
        assert found is not None
        assert found.tobytes() == struct.pack(f"<{len(numbers)}d", *numbers)


@pytest.mark.parametrize("way", WAYS)
def test_halves_between_doubles_go_to_the_even_one(way: str) -> None:
    """Where a rounding that is off by the least bit shows."""
    texts = []
    for power in range(-70, 71):
        for mantissa in (2**53 + 1, 2**53 + 3, 2**54 + 2, 2**54 + 6, 9007199254740995, 10**18 + 1, 2**63 + 1025):
            texts.append(f"{mantissa}e{power}")
            texts.append(f"{mantissa}.0000000000000000000000001e{power}")
    found = by(way, f"[{','.join(texts)}]".encode(), "FP64", [len(texts)])
    assert found is not None
    assert found.tolist() == [float(text) for text in texts]


@pytest.mark.parametrize("way", WAYS)
def test_halves_between_floats_go_where_the_nearest_double_goes(way: str) -> None:
    """A float is the nearest to the nearest double, which is not always the nearest to the text."""
    random = np.random.default_rng(5)
    texts = []
    for low in (random.normal(size=300) * 10.0 ** random.integers(-12, 5, 300)).astype(np.float32):
        half = (Decimal(float(low)) + Decimal(float(np.nextafter(low, np.float32(np.inf))))) / 2
        for shift in (Decimal(0), *(Decimal(f"1e-{places}") for places in (14, 15, 16, 17, 18, 22, 30))):
            texts += [f"{half + shift:f}", f"{half - shift:f}", f"{half + shift:.16f}", f"{half - shift:.13f}"]
    found = by(way, f"[{','.join(texts)}]".encode(), "FP32", [len(texts)])
    assert found is not None
    assert found.tobytes() == np.array([float(text) for text in texts]).astype(np.float32).tobytes()


@pytest.mark.parametrize("datatype", ["FP32", "BF16", "FP64"])
@given(data=st.data())
def test_long_lists_are_read_as_short_ones(datatype: str, data: st.DataObject) -> None:
    """What is far from the end of the text is read another way."""
    written = st.one_of(
        st.decimals(-9_999, 9_999, places=data.draw(st.integers(0, 24))).map("{:f}".format),
        st.floats(-1e5, 1e5).map(repr),
        st.integers(-(10**6), 10**6).filter(bool).map(str),
        st.sampled_from(["0", "0.0", "-0.0", "-0.00000000", "0.00000000000000000001", "1e3", "1E-7", "12345.5"]),
    )
    numbers = data.draw(st.lists(written, min_size=1, max_size=8))
    _read_far_from_the_end(datatype, numbers)


@pytest.mark.parametrize("datatype", [name for name in NUMERIC if name.startswith(("INT", "UINT"))])
@given(data=st.data())
def test_long_lists_of_integers_too(datatype: str, data: st.DataObject) -> None:
    bounds = np.iinfo(DATATYPES[datatype].dtype)
    written = st.integers(int(bounds.min), int(bounds.max)) | st.integers(max(-300, int(bounds.min)), 100)
    _read_far_from_the_end(datatype, [str(number) for number in data.draw(st.lists(written, min_size=1, max_size=8))])


def _read_far_from_the_end(datatype: str, numbers: list[str]) -> None:
    expected = slow(f"[{','.join(numbers)}]".encode(), datatype, [len(numbers)])
    assert expected is not None
    times = 1 + 400 // len(numbers)
    for separator in (",", ", ", " ,\n"):
        text = f"[{separator.join(numbers * times)}]".encode()
        for way in WAYS:
            found = by(way, text, datatype, [len(numbers) * times])
            assert separator == " ,\n" or found is not None, way
            assert found is None or found.tobytes() == expected.tobytes() * times, way


@pytest.mark.parametrize("wrong", ["", " ", "-", "01", "1.5", "x", "1 2", "[1", "1]", "300", "-1", "+1", '"1"'])
def test_one_wrong_integer_among_many_is_left_to_others(way: str, wrong: str) -> None:
    for place in (0, 70, 200, 300, 399):
        numbers = ["1"] * 400
        numbers[place] = wrong
        assert by(way, f"[{','.join(numbers)}]".encode(), "UINT8", [400]) is None


@pytest.mark.parametrize("datatype", NUMERIC)
@pytest.mark.parametrize("shape", [[1], [7], [2, 3], [1, 1, 4], [3, 1], [2, 2, 2, 2]])
def test_plain_data_is_taken(way: str, datatype: str, shape: list[int]) -> None:
    numbers: Any = np.arange(math.prod(shape)) % 2
    values = numbers.astype(bool).tolist() if datatype == "BOOL" else numbers.tolist()
    nested = np.array(values).reshape(shape).tolist()
    for flat, given_as in ((True, values), (False, nested)):
        for text in (orjson.dumps(given_as), orjson.dumps(given_as, option=orjson.OPT_INDENT_2)):
            found = read_numbers(memoryview(text), datatype, shape, flat, lambda: None)
            assert found is not None
            expected = slow(text, datatype, shape)
            assert expected is not None
            assert (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


@pytest.mark.parametrize("datatype", [name for name in NUMERIC if name.startswith(("INT", "UINT"))])
def test_integers_up_to_their_bounds_and_no_further(way: str, datatype: str) -> None:
    bounds = np.iinfo(DATATYPES[datatype].dtype)
    found = by(way, b"[%d,%d]" % (bounds.min, bounds.max), datatype, [2])
    assert found is not None
    assert found.tolist() == [bounds.min, bounds.max]
    for beyond in (bounds.min - 1, bounds.max + 1, 2**64, 2**65, 10**19, 10**20, 99999999999999999999):
        if not bounds.min <= beyond <= bounds.max:
            assert by(way, b"[%d]" % beyond, datatype, [1]) is None


@pytest.mark.parametrize(
    "text",
    ["[[1,2],[3]]", "[[1],[2,3]]", "[[1,2],3,4]", "[1[],[2,3,4]", "[[1]2,[3,4]]", "[[],[1,2,3,4]]", "[[1,2][3,4]]",
     "[[1,2],[3,4]", "[[1,2],[3,4]]]", "[[1,2],[3,4]],", "[[1,2],[3,4]]1", "[[1,2,],[3,4]]", "[[,1],[3,4]]",
     "[1,2,3,4]",      "[[1 2],[3,4]]", "[[1,2],[3,4],]", "[[[1,2],[3,4]]]", "{}", "[", ""],
)  # fmt: skip
def test_other_nesting_is_left_to_others(way: str, text: str) -> None:
    assert by(way, text.encode(), "FP32", [2, 2], flat=False) is None


@pytest.mark.parametrize("count", [20_000, 100_000])
@pytest.mark.parametrize("columns", [1, 8, 5_000])
def test_many_pieces_make_one_array(way: str, count: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).random((count // columns, columns))
    text = memoryview(orjson.dumps(values.tolist()))
    pauses: list[None] = []
    found = read_numbers(text, "FP64", list(values.shape), False, lambda: pauses.append(None))
    assert found is not None
    assert found.tobytes() == values.tobytes()
    assert (len(pauses) >= len(text) // number_text.PIECE) == (way == "pieces")


def test_a_shape_of_more_elements_than_characters_takes_no_memory(way: str) -> None:
    assert read_numbers(memoryview(b"[1]"), "FP32", [2**40], True, lambda: None) is None
    assert read_numbers(memoryview(b"[]"), "FP32", [0], True, lambda: None) is None

"""Tensors as bytes, in and out."""

import struct
from typing import Any

import numpy as np
import pytest

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError
from guepard.core.tensor import Array
from guepard.protocols.oip_binary import decode_array, encode_array

FIXED = [datatype for datatype in DATATYPES.values() if datatype.kind != "bytes"]


def strings(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


def encode(datatype: str, array: Array) -> bytes:
    return bytes(encode_array(datatype, array))


def decode(datatype: str, shape: list[int], data: bytes, start: int = 0) -> Any:
    return decode_array("x", datatype, shape, data, start, len(data) - start)


@pytest.mark.parametrize("datatype", FIXED, ids=lambda datatype: datatype.name)
def test_bit_patterns_pass_through(datatype: Any) -> None:
    array = np.arange(6, dtype=np.uint8).astype(datatype.dtype)
    if datatype.kind == "float":
        array[:2] = np.array([0x7FFF, 0xFC01], "<u2") if datatype.name == "BF16" else [np.nan, -np.inf]
    data = array.tobytes()
    decoded = decode(datatype.name, [2, 3], b"??" + data, start=2)
    assert (decoded.shape, decoded.dtype) == ((2, 3), datatype.dtype)
    assert decoded.tobytes() == encode(datatype.name, decoded) == data


def test_fixed_size_data_is_viewed_and_not_copied() -> None:
    body = bytearray(8)
    decoded = decode_array("x", "FP32", [2], memoryview(body), 0, 8)
    body[0:4] = struct.pack("<f", 1.5)
    assert decoded.tolist() == [1.5, 0.0]


def test_half_floats_are_little_endian() -> None:
    assert decode("FP16", [1], b"\x00\x3e").tolist() == [1.5]
    assert encode("FP16", np.array([1.5], np.float16)) == b"\x00\x3e"


def test_byte_strings_of_all_lengths() -> None:
    elements = [b"hello", b"", b"\xff\x00", "😀".encode()]
    decoded = decode("BYTES", [2, 2], strings(*elements))
    assert decoded.tolist() == [elements[:2], elements[2:]]
    assert encode("BYTES", decoded) == strings(*elements)


@pytest.mark.parametrize("shape", [[0], [2, 0], [0, 2], [2, 0, 3]])
@pytest.mark.parametrize("datatype", DATATYPES)
def test_a_tensor_without_elements_takes_no_bytes(datatype: str, shape: list[int]) -> None:
    decoded = decode(datatype, shape, b"")
    assert (list(decoded.shape), decoded.dtype) == (shape, DATATYPES[datatype].dtype)
    assert encode(datatype, decoded) == b""


@pytest.mark.parametrize("datatype", ["FP32", "BYTES", "BOOL"])
@pytest.mark.parametrize("shape", [[0, 2**63], [0, 2**62, 2**62], [0, *[1] * 80]])
def test_a_shape_that_no_array_has_is_refused(datatype: str, shape: list[int]) -> None:
    with pytest.raises(InputError, match=r"input 'x': shape \[0, .* is beyond what an array can have"):
        decode(datatype, shape, b"")


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "reason"),
    [
        ("FP32", [2], b"\0" * 7, "FP32 of shape [2] takes 8 bytes, its data is 7 bytes long"),
        ("FP32", [2], b"\0" * 12, "FP32 of shape [2] takes 8 bytes, its data is 12 bytes long"),
        ("INT64", [2, 0], b"\0", "INT64 of shape [2, 0] takes 0 bytes, its data is 1 bytes long"),
        ("BOOL", [2], b"\x01\x02", "a BOOL byte must be 0 or 1"),
        ("BYTES", [1], b"\x01\x00", "BYTES data ends inside the length of element 0"),
        ("BYTES", [2], strings(b"a") + b"\0", "BYTES data ends inside the length of element 1"),
        ("BYTES", [1], b"\x05\x00\x00\x00abc", "BYTES element 0 is 5 bytes long but 3 are left"),
        ("BYTES", [1], b"\xff\xff\xff\xff", "BYTES element 0 is 4294967295 bytes long but 0 are left"),
        ("BYTES", [2], strings(b"a"), "shape [2] needs 2 elements, the binary data holds 1"),
        ("BYTES", [1], strings(b"a", b"b", b"c"), "shape [1] needs 1 elements, the binary data holds more than 1"),
        ("BYTES", [0], strings(b""), "shape [0] needs 0 elements, the binary data holds more than 0"),
        ("BYTES", [2**40], strings(b""), "needs 1099511627776 elements, the binary data holds 1"),
    ],
)
def test_bytes_that_do_not_fill_the_shape_are_refused(
    datatype: str, shape: list[int], data: bytes, reason: str
) -> None:
    with pytest.raises(InputError) as caught:
        decode(datatype, shape, data)
    assert str(caught.value).startswith("input 'x': ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("size", [8, 40_000], ids=["small", "large"])
def test_outputs_are_written_row_major_whatever_their_memory_is(size: int) -> None:
    array = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    assert encode("FP32", array) == array.tobytes()
    assert encode("FP32", array.T) == array.T.tobytes()
    assert encode("FP32", array[:, ::2]) == array[:, ::2].tobytes()

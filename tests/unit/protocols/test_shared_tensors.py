"""Tensors in regions: where parameters say they lie, reading one, writing several."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import GuepardError, InputError, NotFound, PermissionDenied
from guepard.core.regions import NOT_ALLOWED
from guepard.core.response import InferenceResponse
from guepard.core.tensor import Tensor, TensorSpec
from guepard.protocols.large_json import LARGE, LargeJson
from guepard.protocols.oip_codec import OipCodec
from guepard.protocols.shared_tensors import Place, SharedInput, find_place, read_tensor, write_tensor, write_tensors
from guepard.transport.shared_memory import SharedMemory
from tests.services.shared_objects import PREFIX, SharedObject
from tests.unit.protocols.requests import binary_tensor, config_of, decode_binary, decode_json, tensor

SIZE = 4_096
PAIR = (TensorSpec("a", "FP32", [-1]), TensorSpec("b", "INT64", [-1]))


@pytest.fixture
def piece() -> Iterator[SharedObject]:
    with SharedObject(SIZE) as piece:
        yield piece


@pytest.fixture
def regions(piece: SharedObject) -> SharedMemory:
    shared = SharedMemory([PREFIX])
    shared.register("r", piece.key, 0, SIZE)
    return shared


def at(offset: int, size: int, region: str = "r") -> dict[str, Any]:
    return {
        "shared_memory_region": region,
        "shared_memory_offset": offset,
        "shared_memory_byte_size": size,
    }


def shared_tensor(datatype: str, shape: list[int], parameters: dict[str, Any], name: str = "x") -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": parameters}


# Parameters


def test_where_a_tensor_lies() -> None:
    assert find_place("inputs[0]", {"binary_data_size": 4, "mine": 1}) is None
    assert find_place("inputs[0]", at(8, 16)) == Place("r", 8, 16)
    assert find_place("inputs[0]", {"shared_memory_region": "r", "shared_memory_byte_size": 0}) == Place("r", 0, 0)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"shared_memory_region": "r"}, "inputs[0].parameters.shared_memory_byte_size: missing"),
        ({"shared_memory_byte_size": 4}, "inputs[0].parameters.shared_memory_region: missing"),
        ({"shared_memory_offset": 0}, "inputs[0].parameters.shared_memory_region: missing"),
        (at(0, 4) | {"shared_memory_region": 7}, "shared_memory_region: expected the name of a region, got 7"),
        (at(0, 4, ""), "shared_memory_region: expected the name of a region, got ''"),
        (at(0, 4, "r" * 257), "shared_memory_region: expected the name of a region, got 'rrr"),
        (at(-1, 4), "shared_memory_offset: expected a whole number of 0 or more, got -1"),
        (at(0, 4) | {"shared_memory_offset": 1.0}, "shared_memory_offset: expected a whole number"),
        (at(0, 4) | {"shared_memory_offset": True}, "shared_memory_offset: expected a whole number"),
        (at(0, 4) | {"shared_memory_offset": None}, "shared_memory_offset: expected a whole number"),
        (at(2**63, 4), "shared_memory_offset: expected a whole number"),
        (at(0, -4), "shared_memory_byte_size: expected a whole number of 0 or more, got -4"),
        (at(0, 4) | {"shared_memory_byte_size": "4"}, "shared_memory_byte_size: expected a whole number"),
        (at(0, 2**64), "shared_memory_byte_size: expected a whole number"),
    ],
)
def test_what_has_no_meaning_is_refused(parameters: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        find_place("inputs[0]", parameters)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 200


# One tensor


@pytest.mark.parametrize("datatype", [name for name, entry in DATATYPES.items() if entry.size])
def test_what_was_written_is_what_is_read(regions: SharedMemory, datatype: str) -> None:
    spec = TensorSpec("y", datatype, [-1])
    array = (np.arange(6) % 2).astype(DATATYPES[datatype].dtype).reshape(2, 3)
    echo = write_tensor(spec, array, Place("r", 8, 100), regions)
    assert echo == at(8, array.nbytes)
    back = read_tensor("y", datatype, [2, 3], echo, regions)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, (2, 3), array.tobytes())
    assert not back.flags.writeable


def test_byte_strings_of_all_lengths(regions: SharedMemory) -> None:
    elements = [b"hello", b"", b"\xff\x00", "😀".encode()]
    array = np.array(elements, object).reshape(2, 2)
    echo = write_tensor(TensorSpec("y", "BYTES", [-1]), array, Place("r", 3, 1_000), regions)
    assert echo == at(3, sum(map(len, elements)) + 16)
    assert read_tensor("y", "BYTES", [2, 2], echo, regions).tolist() == array.tolist()


@pytest.mark.parametrize(
    ("datatype", "shape", "size", "reason"),
    [
        ("FP32", [2], 7, "input 'x': FP32 of shape [2] takes 8 bytes, shared_memory_byte_size is 7"),
        ("FP32", [2], SIZE * 2, "takes 8 bytes, shared_memory_byte_size is 8192"),
        ("INT64", [2, 0], 1, "takes 0 bytes, shared_memory_byte_size is 1"),
        ("FP33", [2], 8, "unknown datatype 'FP33'"),
        ("BYTES", [2], 12, "the binary data holds more than 2"),
        ("BYTES", [1], 3, "BYTES data ends inside the length of element 0"),
        ("FP32", [0, 2**63], 0, "is beyond what an array can have"),
        ("FP32", [2_000], 8_000, "shared memory region 'r' has 4096 bytes"),
    ],
)
def test_bytes_that_do_not_fill_the_shape(
    regions: SharedMemory, datatype: str, shape: list[int], size: int, reason: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_tensor("x", datatype, shape, at(0, size), regions)
    assert reason in str(caught.value)


def test_a_byte_that_is_no_boolean(regions: SharedMemory, piece: SharedObject) -> None:
    piece.put(b"\1\2")
    with pytest.raises(InputError, match="a BOOL byte must be 0 or 1"):
        read_tensor("x", "BOOL", [2], at(0, 2), regions)


def test_a_tensor_that_names_no_region_cannot_be_read(regions: SharedMemory) -> None:
    with pytest.raises(InputError, match=r"inputs\[3\].parameters.shared_memory_region: missing"):
        read_tensor("x", "FP32", [1], {}, regions, "inputs[3]")


@pytest.mark.parametrize(
    ("place", "error", "reason"),
    [
        (Place("r", 0, 7), InputError, "output 'b' takes 8 bytes, shared_memory_byte_size is 7; nothing was written"),
        (Place("r", SIZE - 7, 8), InputError, "8 bytes at offset 4089 lie outside it"),
        (Place("gone", 0, 8), NotFound, "no shared memory region 'gone' is registered"),
    ],
)
def test_nothing_is_written_unless_all_of_it_fits(
    regions: SharedMemory, piece: SharedObject, place: Place, error: type[GuepardError], reason: str
) -> None:
    a, b = np.ones(2, np.float32), np.ones(1, np.int64)
    with pytest.raises(error) as caught:
        write_tensors([(PAIR[0], a, Place("r", 100, 8)), (PAIR[1], b, place)], regions)
    assert reason in str(caught.value)
    assert piece.get(SIZE) == bytes(SIZE)


def test_without_leave_nothing_is_read_or_written() -> None:
    for call in (
        lambda: read_tensor("x", "FP32", [1], at(0, 4), NOT_ALLOWED),
        lambda: write_tensor(PAIR[0], np.ones(1, np.float32), Place("r", 0, 4), NOT_ALLOWED),
    ):
        with pytest.raises(PermissionDenied, match="--allow-client-shm"):
            call()


# Whole messages


@pytest.mark.parametrize("binary", [True, False])
def test_a_message_says_where_its_inputs_lie_and_holds_the_others(regions: SharedMemory, binary: bool) -> None:
    regions.write("r", 16, struct.pack("<2q", 3, 4))
    other = binary_tensor("FP32", [1, 2], 8, "a") if binary else tensor("FP32", [1, 2], [1, 2], name="a")
    message = {"inputs": [other, shared_tensor("INT64", [1, 2], at(16, 16), "b")], "id": "7"}
    codec = OipCodec(config_of(PAIR), regions)
    for turn in range(3):  # a head that is remembered brings no contents with it
        regions.write("r", 16, struct.pack("<2q", 3 + turn, 4))
        data = np.array([1, 2], np.float32).tobytes() if binary else b""
        request = decode_binary(message, data, codec)
        shared = request.reply_format.shared
        assert isinstance(shared.inputs[1], SharedInput)
        assert (shared.input_bytes, shared.output_bytes) == (16, 0)
        a, b = shared.collect(regions)
        assert (a.name, a.array.tolist(), b.name, b.array.tolist()) == ("a", [[1, 2]], "b", [[3 + turn, 4]])
        assert request.id == "7"


def test_json_that_is_all_in_shared_memory(regions: SharedMemory) -> None:
    request = decode_json({"inputs": [shared_tensor("FP32", [1, 2], at(0, 8))]}, OipCodec(config_of(), regions))
    (collected,) = request.reply_format.shared.collect(regions)
    assert isinstance(collected, Tensor)
    assert collected.array.tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"data": [1, 2]}, "input 'x': both data and shared_memory_region; send one of them"),
        ({"parameters": at(0, 8) | {"binary_data_size": 8}}, "both binary_data_size and shared_memory_region"),
        ({"parameters": at(0, 9)}, "takes 8 bytes, shared_memory_byte_size is 9"),
        ({"parameters": at(0, -8)}, "inputs[0].parameters.shared_memory_byte_size"),
    ],
)
def test_data_comes_one_way_only(regions: SharedMemory, given: dict[str, Any], reason: str) -> None:
    message = {"inputs": [shared_tensor("FP32", [1, 2], at(0, 8)) | given]}
    codec = OipCodec(config_of(), regions)
    with pytest.raises(InputError) as caught:
        decode_json(message, codec)
    assert reason in str(caught.value)
    with pytest.raises(InputError) as caught:
        decode_binary(message, b"", codec)
    assert reason in str(caught.value)


@pytest.mark.parametrize(("second", "overlap"), [(8, False), (7, True), (0, True), (4, True)])
def test_outputs_do_not_overlap(regions: SharedMemory, second: int, overlap: bool) -> None:
    message = {
        "inputs": [tensor("FP32", [1, 1], [1], name="a"), tensor("INT64", [1, 1], [1], name="b")],
        "outputs": [{"name": "b", "parameters": at(second, 8)}, {"name": "a", "parameters": at(0, 8)}],
    }
    codec = OipCodec(config_of(PAIR), regions)
    if overlap:
        with pytest.raises(InputError, match=r"outputs: '.' and '.' overlap in shared memory region 'r'"):
            decode_json(message, codec)
    else:
        assert decode_json(message, codec).reply_format.shared.output_bytes == 16


@pytest.mark.parametrize("binary", [True, False])
def test_an_answer_leaves_out_what_it_wrote_to_shared_memory(regions: SharedMemory, binary: bool) -> None:
    codec = OipCodec(config_of(PAIR), regions)
    outputs = [
        {"name": "b", "parameters": at(8, 64) | {"binary_data": False}},
        {"name": "a", "parameters": {"binary_data": binary}},
    ]
    inputs = [tensor("FP32", [1, 1], [1], name="a"), tensor("INT64", [1, 1], [1], name="b")]
    request = decode_json({"inputs": inputs, "outputs": outputs}, codec)
    a, b = np.array([[1.5]], np.float32), np.array([[7]], np.int64)
    length, parts = codec.encode(request, InferenceResponse(codec.config, [a, b]))
    assert not isinstance(parts, LargeJson)
    body = b"".join(parts)
    assert (length is not None) is binary
    first, second = json.loads(body[:length])["outputs"]
    assert first == {"name": "b", "datatype": "INT64", "shape": [1, 1], "parameters": at(8, 8)}
    assert second["name"] == "a"
    assert body[length:] == a.tobytes() if binary else second["data"] == [1.5]
    assert bytes(regions.read("r", 8, 8)) == b.tobytes()


def test_shared_memory_beside_an_answer_of_much_json(regions: SharedMemory) -> None:
    codec = OipCodec(config_of(PAIR), regions)
    inputs = [tensor("FP32", [1, 1], [1], name="a"), tensor("INT64", [1, 1], [1], name="b")]
    request = decode_json({"inputs": inputs, "outputs": [{"name": "a"}, {"name": "b", "parameters": at(0, 8)}]}, codec)
    a, b = np.ones((1, 2 * LARGE), np.float32), np.array([[7]], np.int64)
    _, large = codec.encode(request, InferenceResponse(codec.config, [a, b]))
    assert isinstance(large, LargeJson)
    list(large.check())
    first, second = json.loads(b"".join(large.text()))["outputs"]
    assert first["data"] == [1.0] * 2 * LARGE
    assert second == {"name": "b", "datatype": "INT64", "shape": [1, 1], "parameters": at(0, 8)}
    assert bytes(regions.read("r", 0, 8)) == b.tobytes()

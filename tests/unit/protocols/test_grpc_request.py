"""ModelInferRequest to InferenceRequest: raw contents as views, typed contents checked, heads remembered."""

import struct
import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import GuepardError, InputError, Unsupported
from guepard.protocols.brain_float import to_float32
from guepard.protocols.grpc_contents import FIELDS
from guepard.protocols.grpc_request import RequestReader, split
from tests.unit.protocols.grpc_calls import call, declared, read
from tests.unit.protocols.requests import only


def floats(*values: float) -> bytes:
    return np.array(values, np.float32).tobytes()


def refused(message: Any, reason: str, error: type[GuepardError] = InputError) -> None:
    with pytest.raises(error) as caught:
        read(message)
    assert reason in str(caught.value)


# Cutting the raw contents off

FIELD = st.sampled_from(["model_name", "model_version", "id", "inputs", "outputs", "parameters", "raw"])


def wire_of(field: str, data: bytes) -> bytes:
    """One field as a message of its own, which is how protobuf lets fields be put one behind another."""
    message = service_pb2.ModelInferRequest()
    text = data.hex()
    if field == "raw":
        message.raw_input_contents.append(data)
    elif field == "inputs":
        message.inputs.add(name=text, datatype="FP32", shape=[len(data)])
    elif field == "outputs":
        message.outputs.add(name=text)
    elif field == "parameters":
        message.parameters[text].string_param = text
    else:
        setattr(message, field, text)
    encoded: bytes = message.SerializeToString()
    return encoded


@given(st.lists(st.tuples(FIELD, st.binary(max_size=300)), max_size=12))
def test_fields_in_any_order_and_any_number_are_cut_as_protobuf_reads_them(fields: list[tuple[str, bytes]]) -> None:
    message = b"".join(wire_of(field, data) for field, data in fields)
    parts = split(message)
    assert parts is not None
    text, spans = parts
    whole = service_pb2.ModelInferRequest.FromString(message)
    assert [message[start:end] for start, end in spans] == list(whole.raw_input_contents)
    del whole.raw_input_contents[:]
    assert service_pb2.ModelInferRequest.FromString(text) == whole


@given(st.binary(max_size=60))
def test_garbage_is_refused_or_read_but_never_more(message: bytes) -> None:
    with suppress(GuepardError):
        read(message)


@pytest.mark.parametrize(
    "unknown",
    [b"\x78\x05", b"\x7d\0\0\0\0", b"\x79" + bytes(8), b"\x7a\x02ab", b"\x7b\x08\x01\x7c", b"\xfa\x01\x02ab"],
    ids=["varint", "fixed32", "fixed64", "bytes", "group", "two-byte tag"],
)
@pytest.mark.parametrize("where", ["before", "after"])
def test_fields_of_a_later_protocol_are_passed_over(unknown: bytes, where: str) -> None:
    message = call(floats(1, 2), id="7")
    declared(message, "FP32", [1, 2])
    data = message.SerializeToString()
    request = read(unknown + data if where == "before" else data + unknown)
    assert (request.id, only(request).tolist()) == ("7", [[1, 2]])


@pytest.mark.parametrize("unknown", [b"", b"\x78\x05", b"\x7d\0\0\0\0", b"\x79" + bytes(8), b"\x7b\x7c"])
@pytest.mark.parametrize("field", [b"\x3a\0", b"\x2a\0", b"\xfa\x01\0"], ids=["raw", "inputs", "unknown"])
def test_a_message_of_nothing_but_empty_fields_is_refused_before_objects_are_made_of_them(
    unknown: bytes, field: bytes
) -> None:
    message = unknown + field * 500_000  # of which 128 MiB, taken one by one, would fill many GiB
    tracemalloc.start()
    with pytest.raises(InputError, match="more than 4096 fields"):
        RequestReader().read(message)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


def test_as_many_parameters_as_are_read_and_one_more() -> None:
    message = call(floats(1))
    tensor = declared(message, "FP32", [1])
    for index in range(1_025):
        tensor.parameters[str(index)].int64_param = index
    refused(message, "inputs[0].parameters: 1025 are too many; at most 1024")
    del tensor.parameters["0"]
    assert only(read(message)).tolist() == [1]


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_message_that_ends_early_is_none(cut: int) -> None:
    message = call(floats(1, 2))
    declared(message, "FP32", [1, 2])
    data = message.SerializeToString()[:-cut]
    with pytest.raises(InputError):
        read(data)


# Raw contents


@pytest.mark.parametrize("datatype", [name for name in DATATYPES if name != "BYTES"])
def test_raw_contents_are_views_on_the_message(datatype: str) -> None:
    array = np.arange(2).astype(DATATYPES[datatype].dtype).reshape(1, 2)
    message = call(array.tobytes())
    declared(message, datatype, [1, 2])
    found = only(read(message))
    assert (found.dtype, found.tolist()) == (array.dtype, array.tolist())
    assert not found.flags.owndata


def test_raw_strings() -> None:
    strings = [b"hello", b"", "😀".encode(), b"\xff"]
    message = call(b"".join(struct.pack("<I", len(each)) + each for each in strings))
    declared(message, "BYTES", [2, 2])
    assert only(read(message)).ravel().tolist() == strings


def test_inputs_without_elements() -> None:
    message = call(b"")
    declared(message, "FP32", [2, 0])
    assert only(read(message)).shape == (2, 0)
    message = call()
    declared(message, "FP32", [0])
    assert only(read(message)).shape == (0,)


@pytest.mark.parametrize(
    ("datatype", "shape", "raw", "reason"),
    [
        ("FP32", [1, 2], floats(1), "FP32 of shape [1, 2] takes 8 bytes"),
        ("FP32", [1, 2], floats(1, 2, 3), "FP32 of shape [1, 2] takes 8 bytes"),
        ("FP32", [2**40, 2**40], floats(1), "takes"),
        ("BOOL", [2], b"\1\2", "a BOOL byte must be 0 or 1"),
        ("BYTES", [2], struct.pack("<I", 1) + b"a", "shape [2] needs 2 elements"),
        ("BYTES", [1], struct.pack("<I", 9) + b"a", "is 9 bytes long but 1 are left"),
        ("FP33", [1], floats(1), "unknown datatype 'FP33'"),
        ("FP32", [-1], floats(1), "inputs[0].shape[0]: expected 0 or more, got -1"),
        ("FP32", [1] * 33, floats(1), "inputs[0].shape: expected at most 32 dimensions, got 33"),
    ],
)
def test_raw_contents_that_do_not_fit(datatype: str, shape: list[int], raw: bytes, reason: str) -> None:
    message = call(raw)
    declared(message, datatype, shape)
    refused(message, reason)


def test_raw_contents_come_for_every_input_or_for_none() -> None:
    message = call(floats(1))
    declared(message, "FP32", [1], "a")
    declared(message, "FP32", [1], "b")
    refused(message, "raw_input_contents: 1 came for 2 inputs")
    message = call(floats(1), floats(1))
    declared(message, "FP32", [1], "a")
    refused(message, "raw_input_contents: 2 came for 1 inputs")
    message = call(floats(1))
    declared(message, "FP32", [1], fp32_contents=[1])
    refused(message, "inputs[0].contents: raw_input_contents came as well")
    refused(call(floats(1)), "raw_input_contents: 1 came for 0 inputs")


# Typed contents

TYPED: dict[str, list[Any]] = {
    "BOOL": [True, False],
    "INT8": [-128, 127],
    "INT16": [-(2**15), 2**15 - 1],
    "INT32": [-(2**31), 2**31 - 1],
    "INT64": [-(2**63), 2**63 - 1],
    "UINT8": [0, 255],
    "UINT16": [0, 2**16 - 1],
    "UINT32": [0, 2**32 - 1],
    "UINT64": [0, 2**64 - 1],
    "FP16": [-65_504.0, 0.5],
    "FP32": [-1.5, float("inf")],
    "FP64": [1e-300, float("-inf")],
    "BF16": [-1.5, 256.0],
    "BYTES": [b"", b"\xff\0"],
}


@pytest.mark.parametrize("datatype", TYPED)
def test_typed_contents(datatype: str) -> None:
    message = call()
    contents: dict[str, Any] = {FIELDS[datatype]: TYPED[datatype]}
    declared(message, datatype, [2, 1], **contents)
    found: NDArray[Any] = only(read(message))
    assert (found.dtype, found.shape) == (DATATYPES[datatype].dtype, (2, 1))
    values = to_float32(found) if datatype == "BF16" else found
    assert values.ravel().tolist() == TYPED[datatype]


def test_every_datatype_has_typed_contents() -> None:
    assert TYPED.keys() == FIELDS.keys() == DATATYPES.keys()


def test_not_a_number_passes() -> None:
    for datatype in ("FP16", "BF16", "FP32"):
        message = call()
        declared(message, datatype, [1], fp32_contents=[float("nan")])
        found = only(read(message))
        assert np.isnan(to_float32(found) if datatype == "BF16" else found).all()


@pytest.mark.parametrize(
    ("datatype", "contents", "reason"),
    [
        ("INT8", {"int_contents": [0, 128]}, "inputs[0].contents.int_contents[1]: 128 does not fit INT8"),
        ("INT16", {"int_contents": [-(2**15) - 1, 0]}, "int_contents[0]: -32769 does not fit INT16"),
        ("UINT8", {"uint_contents": [0, 256]}, "uint_contents[1]: 256 does not fit UINT8"),
        ("UINT16", {"uint_contents": [65_536, 0]}, "uint_contents[0]: 65536 does not fit UINT16"),
        ("FP16", {"fp32_contents": [0, 65_520]}, "fp32_contents[1]: 65520.0 does not fit FP16"),
        ("BF16", {"fp32_contents": [3.4e38, 0]}, "does not fit BF16"),
        ("INT32", {"fp32_contents": [1, 2]}, "inputs[0].contents: INT32 data belongs into int_contents, fp32_contents"),
        ("FP32", {"fp64_contents": [1, 2]}, "FP32 data belongs into fp32_contents, fp64_contents came"),
        ("INT64", {"int_contents": [1, 2]}, "INT64 data belongs into int64_contents, int_contents came"),
        ("FP32", {"fp32_contents": [1, 2], "int_contents": [3]}, "int_contents came"),
        ("FP32", {"fp32_contents": [1]}, "input 'x': shape [2] needs 2 elements, fp32_contents holds 1"),
        ("BYTES", {"bytes_contents": [b"a"] * 3}, "input 'x': shape [2] needs 2 elements, bytes_contents holds 3"),
        ("FP32", {}, "input 'x': shape [2] needs 2 elements, fp32_contents holds 0"),
    ],
)
def test_typed_contents_that_do_not_fit(datatype: str, contents: dict[str, Any], reason: str) -> None:
    message = call()
    declared(message, datatype, [2], **contents)
    refused(message, reason)


# What stands beside the tensors


def test_everything_beside_the_tensors() -> None:
    message = call(floats(1), id="7")
    declared(message, "FP32", [1])
    message.outputs.add(name="b")
    message.outputs.add(name="a")
    message.parameters["timeout"].int64_param = 5
    message.parameters["priority"].uint64_param = 1
    message.parameters["flag"].bool_param = True
    message.parameters["text"].string_param = "123"
    message.parameters["ratio"].double_param = 0.5
    request = read(message)
    assert (request.id, request.requested_outputs) == ("7", ("b", "a"))
    assert (request.timeout_ns, request.priority) == (5_000, 1)
    assert request.parameters == {"flag": True, "text": "123", "ratio": 0.5}
    assert request.reply_format.binary


def test_typed_answers_are_asked_for_by_a_parameter() -> None:
    message = call()
    message.parameters["binary_data_output"].bool_param = False
    assert not read(message).reply_format.binary
    assert read(call()).reply_format.binary


@pytest.mark.parametrize(
    ("change", "reason", "error"),
    [
        (lambda m: m.parameters["p"].Clear(), "parameters.p: no value", InputError),
        (lambda m: setattr(m.parameters["timeout"], "string_param", "soon"), "parameters.timeout", InputError),
        (lambda m: setattr(m.parameters["priority"], "int64_param", 9), "parameters.priority", InputError),
        (
            lambda m: setattr(m.parameters["k" * 2_000], "int64_param", 9),
            "expected at most 1024 characters",
            InputError,
        ),
        (lambda m: setattr(m, "id", "i" * 9_000), "id: expected at most 8192 characters, got 9000", InputError),
        (lambda m: m.outputs.extend([dict_output("y"), dict_output("y")]), "'y' is asked for twice", InputError),
        (lambda m: m.outputs.extend([dict_output("y", binary_data=False)]), "all outputs come in one form", InputError),
        (lambda m: m.outputs.extend([dict_output("y", classification=2)]), "classification", Unsupported),
        (lambda m: m.outputs.extend([dict_output("y")] * 1_025), "outputs: 1025 are too many", InputError),
        (lambda m: m.inputs.extend([service_pb2.ModelInferRequest.InferInputTensor()] * 1_025), "1025", InputError),
    ],
)
def test_what_is_refused_beside_the_tensors(change: Any, reason: str, error: type[GuepardError]) -> None:
    message = call()
    change(message)
    refused(message, reason, error)


def dict_output(name: str, **parameters: Any) -> Any:
    output = service_pb2.ModelInferRequest.InferRequestedOutputTensor(name=name)
    for key, value in parameters.items():
        setattr(output.parameters[key], "bool_param" if isinstance(value, bool) else "int64_param", value)
    return output


def placed(tensor: Any, size: int, offset: int = 0, region: str = "r") -> Any:
    tensor.parameters["shared_memory_region"].string_param = region
    tensor.parameters["shared_memory_byte_size"].int64_param = size
    tensor.parameters["shared_memory_offset"].int64_param = offset
    return tensor


def test_inputs_and_outputs_in_shared_memory_are_places() -> None:
    """Raw contents come for the other inputs alone, in their order."""
    message = call(floats(1), floats(3))
    for name, in_memory in (("a", False), ("b", True), ("c", False)):
        tensor = declared(message, "FP32", [1], name)
        if in_memory:
            placed(tensor, 4, 8)
    placed(message.outputs.add(name="y"), 16)
    message.outputs.add(name="z")
    request = read(message)
    shared = request.reply_format.shared
    assert [given.name for given in shared.inputs] == ["a", "b", "c"]
    assert shared.inputs[1].place == ("r", 8, 4)
    assert [tensor.array.tolist() for tensor in request.tensors] == [[1], [3]]
    assert (shared.outputs["y"], list(shared.outputs)) == (("r", 0, 16), ["y"])
    assert request.reply_format.is_binary("z")
    assert not request.reply_format.is_binary("y")


def test_shared_memory_that_does_not_fit() -> None:
    message = call(floats(1))
    placed(declared(message, "FP32", [1]), 4)
    refused(message, "raw_input_contents: 1 came for 0 inputs")
    message = call()
    placed(declared(message, "FP32", [1], fp32_contents=[1]), 4)
    refused(message, "input 'x': both contents and shared_memory_region")
    message = call()
    placed(declared(message, "FP32", [1]), 12)
    refused(message, "FP32 of shape [1] takes 4 bytes, shared_memory_byte_size is 12")
    message = call()
    placed(declared(message, "FP32", [1]), -4)
    refused(message, "inputs[0].parameters.shared_memory_byte_size: expected a whole number of 0 or more")


# Heads that came before


def test_a_head_seen_before_reads_the_new_bytes_and_shares_nothing_that_can_be_written_on() -> None:
    reader = RequestReader()
    for number in range(3):
        message = call(floats(number))
        declared(message, "FP32", [1])
        assert only(read(message, reader)).tolist() == [number]
    typed = call()
    declared(typed, "FP32", [1], fp32_contents=[1])
    with pytest.raises(ValueError, match="read-only"):
        only(read(typed, reader)).fill(9)
    assert only(read(typed, reader)).tolist() == [1]


def test_a_head_with_and_without_raw_contents_is_two_heads() -> None:
    reader = RequestReader()
    message = call(floats(1))
    declared(message, "FP32", [1])
    assert only(read(message, reader)).tolist() == [1]
    del message.raw_input_contents[:]
    with pytest.raises(InputError, match="fp32_contents holds 0"):
        read(message, reader)
    message.raw_input_contents.append(floats(2))
    assert only(read(message, reader)).tolist() == [2]


def test_a_wrong_head_names_its_model_all_the_same() -> None:
    """So that the model counts the failure."""
    message = call(model_version="3")
    declared(message, "FP33", [1], fp32_contents=[1])
    head = RequestReader().read(message.SerializeToString()).head
    assert (head.model_name, head.model_version) == ("m", "3")

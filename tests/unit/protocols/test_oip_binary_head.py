"""A head that is laid over many bodies: nothing of one request may show in the next."""

from typing import Any

import numpy as np
import pytest

from guepard.core.errors import InputError
from guepard.core.tensor import TensorSpec
from guepard.protocols.oip_codec import OipCodec
from tests.unit.protocols.requests import binary_tensor, config_of, decode_binary, tensor

PAIR = (TensorSpec("a", "FP32", [-1]), TensorSpec("b", "INT64", [-1]))
HEAD: dict[str, Any] = {
    "id": "7",
    "inputs": [binary_tensor("FP32", [1, 2], 8, "a"), tensor("INT64", [1, 2], [3, 4], name="b")],
    "outputs": [{"name": "b"}],
    "parameters": {"timeout": 5, "priority": 1, "mine": "yes"},
}


def floats(*values: float) -> bytes:
    return np.array(values, np.float32).tobytes()


def test_a_head_seen_before_reads_the_new_bytes() -> None:
    codec = OipCodec(config_of(PAIR))
    requests = [decode_binary(HEAD, floats(number, 0), codec) for number in range(3)]
    assert [request.tensors[0].array.tolist() for request in requests] == [[[0, 0]], [[1, 0]], [[2, 0]]]
    for request in requests:
        assert request.tensors[1].array.tolist() == [[3, 4]]
        assert (request.id, request.requested_outputs, request.timeout_ns, request.priority) == ("7", ("b",), 5_000, 1)
        assert request.parameters == {"mine": "yes"}


def test_what_requests_share_cannot_be_written_on() -> None:
    """A tensor that came as JSON is part of the head. Models that write on their inputs are given copies."""
    codec = OipCodec(config_of(PAIR))
    first = decode_binary(HEAD, floats(1, 2), codec)
    with pytest.raises(ValueError, match="read-only"):
        first.tensors[1].array.fill(9)
    second = decode_binary(HEAD, floats(1, 2), codec)
    assert second.tensors[1].array.tolist() == [[3, 4]]
    assert second.parameters == {"mine": "yes"}


def test_a_head_of_another_model_is_read_anew() -> None:
    head = {"inputs": [binary_tensor("FP32", [2], 8, "a")]}
    for codec in (OipCodec(config_of(PAIR)), OipCodec(config_of())):
        assert decode_binary(head, floats(1, 2), codec).tensors[0].array.tolist() == [1, 2]


def test_a_head_seen_before_still_checks_what_follows_it() -> None:
    codec = OipCodec(config_of([TensorSpec("x", "BOOL", [-1])]))
    head = {"inputs": [binary_tensor("BOOL", [2], 2)]}
    assert decode_binary(head, b"\1\0", codec).tensors[0].array.tolist() == [True, False]
    for data, reason in ((b"\1", "1 follow"), (b"\1\0\0", "3 follow"), (b"\1\2", "a BOOL byte must be 0 or 1")):
        with pytest.raises(InputError, match=reason):
            decode_binary(head, data, codec)
    assert decode_binary(head, b"\0\0", codec).tensors[0].array.tolist() == [False, False]


def test_ever_new_heads_are_read_as_well_as_old_ones() -> None:
    """What is remembered has a bound; a head that came too late for it is read all the same."""
    codec = OipCodec(config_of())
    for number in [*range(600), 0, 599]:
        head = {"id": str(number), "inputs": [binary_tensor("FP32", [1], 4)]}
        request = decode_binary(head, floats(number), codec)
        assert (request.id, request.tensors[0].array.tolist()) == (str(number), [number])
    long = {"inputs": [tensor("FP32", [1, 2_000], [1.5] * 2_000)]}
    for _ in range(2):
        assert decode_binary(long, b"", codec).tensors[0].array.sum() == 3_000


def test_a_head_that_was_wrong_stays_wrong() -> None:
    codec = OipCodec(config_of())
    for _ in range(2):
        with pytest.raises(InputError, match="unknown datatype 'FP33'"):
            decode_binary({"inputs": [binary_tensor("FP33", [1], 4)]}, bytes(4), codec)

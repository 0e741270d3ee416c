"""Which outputs were asked for, and in which form."""

from typing import Any

import pytest

from guepard.core.errors import InputError, Unsupported
from guepard.protocols.oip_messages import WireOutput
from guepard.protocols.reply_format import BINARY, JSON, flag, requested


def output(name: str, **parameters: Any) -> WireOutput:
    return WireOutput(name, parameters or None)


def test_nothing_asked_for_is_everything_as_json() -> None:
    assert requested(None, None) == (None, JSON)
    assert requested([], {"other": 1}) == (None, JSON)


@pytest.mark.parametrize(("value", "reply_format"), [(True, BINARY), (False, JSON)])
def test_binary_data_output_is_meant_for_all(value: bool, reply_format: object) -> None:
    assert requested(None, {"binary_data_output": value}) == (None, reply_format)
    assert requested([output("a")], {"binary_data_output": value}) == (("a",), reply_format)


def test_an_output_may_differ_from_the_rest() -> None:
    names, reply_format = requested([output("a", binary_data=False), output("b")], {"binary_data_output": True})
    assert names == ("a", "b")
    assert (reply_format.is_binary("a"), reply_format.is_binary("b")) == (False, True)
    names, reply_format = requested([output("b", binary_data=True), output("a", other=1)], None)
    assert names == ("b", "a")
    assert (reply_format.is_binary("a"), reply_format.is_binary("b")) == (False, True)


def test_an_output_asked_for_twice_is_named() -> None:
    with pytest.raises(InputError, match="outputs: 'b' is asked for twice"):
        requested([output("a"), output("b"), output("c"), output("b")], None)


@pytest.mark.timeout(10)
def test_many_outputs_are_compared_in_one_pass() -> None:
    outputs = [output(str(number)) for number in range(100_000)]
    with pytest.raises(InputError, match="outputs: '99999' is asked for twice"):
        requested([*outputs, outputs[-1]], None)


@pytest.mark.parametrize("value", [1, 0, "true", None, []])
def test_a_flag_is_true_or_false(value: object) -> None:
    with pytest.raises(InputError, match=r"parameters.binary_data_output: expected true or false, got"):
        requested(None, {"binary_data_output": value})
    with pytest.raises(InputError, match=r"outputs\[1\].parameters.binary_data: expected true or false, got"):
        requested([output("a"), output("b", binary_data=value)], None)


def test_a_huge_value_is_not_repeated_in_full() -> None:
    with pytest.raises(InputError) as caught:
        flag("parameters.binary_data_output", "x" * 100_000)
    assert len(str(caught.value)) < 200


def test_extensions_that_are_not_served_are_named() -> None:
    with pytest.raises(Unsupported, match=r"outputs\[0\].parameters"):
        requested([output("a", classification=2)], None)


def test_an_output_may_go_to_shared_memory() -> None:
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
    names, reply_format = requested([output("a", binary_data=True, **place), output("b")], None)
    assert names == ("a", "b")
    assert reply_format.shared is not None
    assert reply_format.shared.outputs == {"a": ("r", 0, 8)}
    assert requested([output("a")], None)[1].shared is None

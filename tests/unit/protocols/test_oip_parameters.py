"""Parameters that the server reads itself, and those that it leaves for the model."""

from typing import Any

import pytest

from guepard.core.errors import InputError, Unsupported
from guepard.core.request import NO_PARAMETERS, InferenceRequest
from guepard.core.response import NOBODY
from guepard.protocols.oip_parameters import apply_parameters, is_whole, priority, refuse_tensor_parameters, whole


def applied(parameters: dict[str, Any]) -> InferenceRequest:
    request = InferenceRequest((), NOBODY, 0)
    apply_parameters(request, parameters)
    return request


def test_the_timeout_is_in_microseconds() -> None:
    assert applied({"timeout": 1_500}).timeout_ns == 1_500_000
    assert applied({"timeout": "1500"}).timeout_ns == 1_500_000
    assert applied({"timeout": 0}).timeout_ns == 0


@pytest.mark.parametrize("value", [0, 1, 3, "2"])
def test_priorities(value: object) -> None:
    assert applied({"priority": value}).priority == int(str(value))


def test_what_the_server_reads_is_not_shown_to_the_model() -> None:
    request = applied({"timeout": 1, "priority": 1, "binary_data_output": True, "temperature": 0.5})
    assert request.parameters == {"temperature": 0.5}
    assert applied({"timeout": 1}).parameters is NO_PARAMETERS


def test_the_others_reach_the_model_as_they_are() -> None:
    parameters = {"text": "a", "flag": True, "whole": -(2**60), "part": 0.5}
    assert applied(parameters).parameters == parameters


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"p": None}, "parameters.p: expected a string, number or boolean, got null"),
        ({"p": [1]}, "parameters.p: expected a string, number or boolean, got an array"),
        ({"p": {"q": 1}}, "parameters.p: expected a string, number or boolean, got an object"),
        ({"timeout": -1}, "parameters.timeout: expected a whole number of 0 or more, got -1"),
        ({"timeout": 1.5}, "parameters.timeout: expected a whole number of 0 or more, got 1.5"),
        ({"timeout": True}, "parameters.timeout: expected a whole number of 0 or more, got True"),
        ({"timeout": 2**63}, "parameters.timeout: expected a whole number of 0 or more, got 9223372036854775808"),
        ({"timeout": "soon"}, "parameters.timeout: expected a whole number of 0 or more, got 'soon'"),
        ({"timeout": ""}, "parameters.timeout: expected a whole number of 0 or more, got ''"),
        ({"timeout": "²"}, "parameters.timeout: expected a whole number of 0 or more, got '²'"),
        ({"priority": 4}, "parameters.priority: expected 0 (the default) to 3, 1 being the highest, got 4"),
        ({"priority": "high"}, "parameters.priority: expected a whole number of 0 or more, got 'high'"),
    ],
)
def test_what_has_no_meaning_is_refused(parameters: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        applied(parameters)
    assert str(caught.value) == reason


def test_a_huge_value_is_not_repeated_in_full() -> None:
    for value in ("9" * 100_000, 10**4_000):
        with pytest.raises(InputError) as caught:
            whole("timeout", value)
        assert len(str(caught.value)) < 200


def test_priority_names_the_field_it_came_by() -> None:
    with pytest.raises(InputError, match=r"^Guepard-Priority: expected 0"):
        priority("Guepard-Priority", 9)


@pytest.mark.parametrize(
    ("value", "answer"), [(1, True), (0, True), (-1, True), (True, False), (1.0, False), ("1", False), (None, False)]
)
def test_what_counts_as_a_whole_number(value: object, answer: bool) -> None:
    assert is_whole(value) is answer


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"classification": 3}, "inputs[0].parameters.classification: classification is not served"),
    ],
)
def test_extensions_that_are_not_served_are_named(parameters: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unsupported) as caught:
        refuse_tensor_parameters("inputs[0]", parameters)
    assert str(caught.value).startswith(reason)


def test_other_tensor_parameters_pass() -> None:
    refuse_tensor_parameters("inputs[0]", {"binary_data_size": 4, "classification": 0, "mine": 1})

"""Custom request parameters against what is declared: what passes, what does not, and the words of the refusal."""

from typing import Any

import numpy as np
import pytest

from guepard.core.errors import InputError
from guepard.core.model_config import RequestParameter
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.core.tensor import Tensor
from guepard.engine.signature import Signature
from tests.unit.engine.configs import model_config
from tests.unit.engine.stage import Stage

ALLOWED = {
    "top_k": RequestParameter("integer", min=1, max=100),
    "big": RequestParameter("integer", max=2**60 + 1),
    "any": RequestParameter("integer"),
    "temperature": RequestParameter("number", min=0),
    "mode": RequestParameter("string", values=("fast", "exact")),
    "level": RequestParameter("integer", values=(1, 2)),
    "note": RequestParameter("string", max_length=3),
    "echo": RequestParameter("boolean"),
}


def bind(parameters: dict[str, Any], allowed: Any = ALLOWED) -> None:
    request = InferenceRequest([Tensor("x", "FP32", np.zeros((1, 1), np.float32))], NOBODY, 0)
    request.parameters = parameters
    Signature(model_config(request_parameters=allowed)).bind(request)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 1),
        ("top_k", 100),
        ("big", 2**60 + 1),
        ("any", -(2**63)),
        ("temperature", 0),
        ("temperature", 0.7),
        ("temperature", 10**30),
        ("mode", "exact"),
        ("level", 2),
        ("note", "äöü"),
        ("note", ""),
        ("echo", True),
        ("echo", False),
    ],
)
def test_what_is_allowed_passes(name: str, value: Any) -> None:
    bind({name: value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("top_k", 0, "expected an integer from 1 to 100, got 0"),
        ("top_k", 101, "got 101"),
        ("top_k", 3.0, "expected an integer from 1 to 100, got 3.0"),
        ("top_k", "3", "got '3'"),
        ("top_k", True, "expected an integer from 1 to 100, got true"),
        ("big", 2**60 + 2, f"expected an integer of {2**60 + 1} or less, got {2**60 + 2}"),
        ("any", 1e300, "expected an integer, got 1e+300"),
        ("temperature", -0.001, "expected a number of 0 or more, got -0.001"),
        ("temperature", True, "expected a number of 0 or more, got true"),
        ("temperature", float("nan"), "got nan"),
        ("temperature", float("inf"), "got inf"),
        ("mode", "slow", "expected one of 'fast', 'exact', got 'slow'"),
        ("mode", 1, "expected one of 'fast', 'exact', got 1"),
        ("level", 3, "expected one of 1, 2, got 3"),
        ("level", True, "expected one of 1, 2, got true"),
        ("level", 1.0, "expected one of 1, 2, got 1.0"),
        ("note", "four", "expected a string of at most 3 characters, got 'four'"),
        ("note", False, "got false"),
        ("echo", 1, "expected true or false, got 1"),
        ("echo", "true", "expected true or false, got 'true'"),
    ],
)
def test_what_is_not_is_named_with_what_came_and_what_is_allowed(name: str, value: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        bind({"any": 1, name: value})
    assert caught.value.message.startswith(f"parameters.{name}: expected ")
    assert words in caught.value.message


def test_an_unknown_one_is_told_which_there_are() -> None:
    with pytest.raises(InputError, match=r"^parameters\.top_p: model 'm' takes no such parameter; it takes any, big, "):
        bind({"top_p": 1})


def test_where_none_is_declared_none_passes() -> None:
    bind({}, {})
    with pytest.raises(InputError, match=r"^parameters\.x: .*; it takes none$"):
        bind({"x": 1}, {})


def test_unset_anything_passes() -> None:
    bind({"top_k": "whatever", "x": -1}, None)


def test_a_refusal_stays_short_whatever_came() -> None:
    for parameters in ({"note": "x" * 10**6}, {"x" * 10**6: 1}, {"top_k": 10**4_000}):
        with pytest.raises(InputError) as caught:
            bind(parameters)
        assert len(caught.value.message) < 300
    many = {f"p{number}": RequestParameter("string", values=tuple(map(str, range(1_000)))) for number in range(1_000)}
    for parameters in ({"x": 1}, {"p1": "x"}):
        with pytest.raises(InputError) as caught:
            bind(parameters, many)
        assert len(caught.value.message) < 400


def test_a_refused_request_never_reaches_the_model() -> None:
    stage = Stage(execution="inline", request_parameters=ALLOWED)
    stage.send(1.0, parameters={"top_k": 0})
    assert stage.executor.runs == []
    assert stage.failures() == {"INVALID": 1}

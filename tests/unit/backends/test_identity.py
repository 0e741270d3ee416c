"""The identity backend."""

from pathlib import Path

import numpy as np
import pytest

from guepard.backends.base import ModelSource
from guepard.backends.identity import IdentityBackend, IdentityModel
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelPolicy
from guepard.core.tensor import TensorSpec

TEXT = TensorSpec("text", "BYTES", [1])
NUMBERS = TensorSpec("numbers", "FP32", [-1])


def load(
    inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...] = (), max_batch_size: int | None = None
) -> IdentityModel:
    policy = ModelPolicy(max_batch_size=max_batch_size)
    return IdentityBackend().load(ModelSource("m", "1", Path("absent"), policy, inputs=inputs, outputs=outputs))


def test_outputs_are_the_inputs_in_order() -> None:
    executor = load((TEXT, NUMBERS)).executor()
    inputs = [np.array([[b"a"]], object), np.zeros((1, 3), np.float32)]
    answer = executor.execute(inputs, [])
    assert all(got is sent for got, sent in zip(answer, inputs, strict=True))
    assert [list(each) for each in executor.execute_stream(inputs, [])] == [inputs]


def test_outputs_default_to_the_inputs() -> None:
    description = load((TEXT, NUMBERS)).description
    assert description.outputs == description.inputs == (TEXT, NUMBERS)
    assert (description.max_batch_size, description.batch_verified) == (64, True)


def test_outputs_may_have_names_of_their_own() -> None:
    renamed = TensorSpec("copy", "BYTES", [1])
    assert load((TEXT,), (renamed,)).description.outputs == (renamed,)


@pytest.mark.parametrize("max_batch_size", [0, 8])
def test_the_batch_size_is_the_operator_s(max_batch_size: int) -> None:
    assert load((TEXT,), max_batch_size=max_batch_size).description.max_batch_size == max_batch_size


@pytest.mark.parametrize(
    ("inputs", "outputs", "reason"),
    [
        ((), (), "needs inputs in the configuration"),
        ((TEXT,), (TEXT, NUMBERS), "1 inputs and 2 outputs"),
        ((TEXT,), (NUMBERS,), r"output 'numbers' \(FP32 \[-1\]\) must be like input 'text' \(BYTES \[1\]\)"),
        ((TensorSpec("x", "FP32", [1], optional=True),), (), "'x' cannot be optional"),
    ],
)
def test_what_cannot_be_an_identity_is_refused(
    inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], reason: str
) -> None:
    with pytest.raises(LoadError, match=reason):
        load(inputs, outputs)

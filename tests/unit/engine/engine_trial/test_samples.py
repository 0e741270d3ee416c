"""Samples that are made up for a model, by models that refuse what the test says."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from guepard.core.tensor import Array, TensorSpec
from guepard.engine.engine_trial.samples import SampleMaker
from guepard.protocols.brain_float import to_float32


def made(
    *specs: TensorSpec,
    rows: int | None = 4,
    free_size: int = 3,
    accepts: Callable[[Sequence[Array]], bool] = lambda _: True,
) -> list[list[Array]]:
    return list(SampleMaker(specs, free_size, rows, accepts).samples())


def accepts_indices_below(*bounds: int) -> Callable[[Sequence[Array]], bool]:
    def accepts(arrays: Sequence[Array]) -> bool:
        return all(array.max() < bound for array, bound in zip(arrays, bounds, strict=True))

    return accepts


def test_floats_are_normal_and_between_nought_and_one() -> None:
    (normal,), (unit,) = made(TensorSpec("x", "FP32", [100]))
    assert normal.shape == (4, 100)
    assert normal.dtype == np.float32
    assert normal.min() < -1
    assert 0 <= unit.min() < 0.1 < 0.9 < unit.max() <= 1


def test_what_may_be_an_image_has_bytes_too() -> None:
    *_, (image,) = made(TensorSpec("x", "FP32", [3, 8, 8]))
    assert 200 < image.max() <= 255


def test_an_image_of_bytes_has_them_all() -> None:
    (image,), _ = made(TensorSpec("x", "UINT8", [8, 8, 3]))
    assert image.dtype == np.uint8
    assert image.min() < 10 < 240 < image.max()


def test_rows_differ() -> None:
    (sample,), *_ = made(TensorSpec("x", "FP32", [10]))
    assert len({row.tobytes() for row in sample}) == 4


def test_they_are_the_same_each_time() -> None:
    specs = TensorSpec("x", "FP32", [10]), TensorSpec("ids", "INT64", [10])
    for one, other in zip(made(*specs), made(*specs), strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(("vocabulary", "expected"), [(30_522, 30_000), (5_000, 1_000), (120, 100), (2, 2)])
def test_indices_are_as_large_as_the_model_takes(vocabulary: int, expected: int) -> None:
    (ids,), *_ = made(TensorSpec("ids", "INT64", [400]), accepts=accepts_indices_below(vocabulary))
    assert expected * 0.5 <= ids.max() < expected or expected == 2


def test_each_input_has_a_bound_of_its_own() -> None:
    specs = TensorSpec("ids", "INT64", [400]), TensorSpec("kinds", "INT32", [400])
    (ids, kinds), *_ = made(*specs, accepts=accepts_indices_below(30_522, 2))
    assert ids.max() > 20_000
    assert set(kinds.flat) == {0, 1}


@pytest.mark.parametrize("datatype", ["INT64", "FP32", "INT8"])
def test_masks_are_ones(datatype: str) -> None:
    (_, mask), *_ = made(TensorSpec("x", "FP32", [4]), TensorSpec("attention_mask", datatype, [4]))
    assert (mask == 1).all()


def test_text_is_words() -> None:
    (words,), *_ = made(TensorSpec("text", "BYTES", [2]))
    assert words.shape == (4, 2)
    assert all(isinstance(word, bytes) for word in words.flat)


def test_booleans_are_both() -> None:
    (flags,), *_ = made(TensorSpec("x", "BOOL", [30]))
    assert set(flags.flat) == {True, False}


def test_bf16_holds_patterns() -> None:
    _, (unit,) = made(TensorSpec("x", "BF16", [100]))
    assert unit.dtype == np.uint16
    assert to_float32(unit).max() <= 1


def test_without_a_batch_there_are_no_rows_and_free_dimensions_have_their_size() -> None:
    (sample,), *_ = made(TensorSpec("x", "FP32", [-1, 2]), rows=None, free_size=5)
    assert sample.shape == (5, 2)

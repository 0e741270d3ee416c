"""When two engines say the same, by answers that the test makes up."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from guepard.core.engine_options import Tolerance
from guepard.core.tensor import TensorSpec
from guepard.engine.engine_trial.agreement import Agreement, agreement
from guepard.protocols.brain_float import from_float32

Floats = NDArray[np.float32]


def floats(*rows: list[float]) -> Floats:
    return np.array(rows, np.float32)


def compared(
    expected: Any,
    actual: Any,
    *,
    datatype: str = "FP32",
    tolerance: Tolerance | None = None,
    batched: bool = True,
) -> Agreement:
    spec = TensorSpec("y", datatype, [-1])
    return agreement((spec,), [[expected]], [[actual]], tolerance or Tolerance(), batched=batched)


class TestRows:
    def test_the_same_is_the_same(self) -> None:
        y = floats([1, 2, 3], [3, 2, 1])
        found = compared(y, y.copy())
        assert found.cosine == pytest.approx(1.0)
        assert (found.top1, found.objection) == (1.0, "")

    def test_the_worst_row_counts(self) -> None:
        found = compared(floats([1, 0], [1, 0]), floats([1, 0], [1, 0.1]))
        assert found.cosine == pytest.approx(1 / np.sqrt(1.01))
        assert found.objection == "the cosine of 'y' is 0.995037, below 0.999"

    def test_a_tolerance_that_was_widened_lets_it_pass(self) -> None:
        assert not compared(floats([1, 0]), floats([1, 0.1]), tolerance=Tolerance(cosine=0.99)).objection

    def test_a_row_that_is_twice_as_long_is_another_though_a_cosine_does_not_see_it(self) -> None:
        found = compared(floats([1, 2, 3]), floats([2, 4, 6]))
        assert found.objection == "rows of 'y' are up to 2 times as long"

    def test_every_sample_counts(self) -> None:
        spec, good, bad = TensorSpec("y", "FP32", [2]), floats([1, 0]), floats([0, 1])
        found = agreement((spec,), [[good], [good]], [[good], [bad]], Tolerance(), batched=True)
        assert found.cosine == 0

    def test_without_batches_an_output_is_one_row(self) -> None:
        expected, actual = floats([1, 0], [100, 0]), floats([0, 1], [100, 0])
        assert compared(expected, actual, batched=False).cosine == pytest.approx(0.9999)
        assert compared(expected, actual, batched=True).cosine == 0

    def test_zeros_agree_with_what_is_next_to_nothing(self) -> None:
        zeros = floats([0, 0, 0])
        assert compared(zeros, zeros.copy()) == Agreement(1.0, 1.0, "")
        assert not compared(zeros, floats([1e-9, 0, 0])).objection
        assert compared(zeros, floats([1e-3, 0, 0])).objection
        assert compared(floats([1e-3, 0, 0]), zeros).objection

    def test_an_output_without_values_agrees(self) -> None:
        empty = np.zeros((2, 0), np.float32)
        assert compared(empty, empty.copy()) == Agreement(None, None, "")

    def test_bf16_is_compared_by_its_values(self) -> None:
        y = from_float32(floats([1, 2, 3]))
        assert compared(y, y + 1, datatype="BF16").cosine == pytest.approx(1.0, abs=1e-4)

    @pytest.mark.parametrize("datatype", ["FP16", "FP64"])
    def test_other_floats_too(self, datatype: str) -> None:
        y = floats([1, 2, 3]).astype(np.dtype(datatype.replace("FP", "float")))
        assert compared(y, y.copy(), datatype=datatype).cosine == pytest.approx(1.0)

    @given(st.floats(1.0, 1e4), st.integers(2, 50), st.floats(0, 1e-4))
    def test_noise_of_single_precision_is_always_within(self, scale: float, columns: int, noise: float) -> None:
        random = np.random.default_rng(columns)
        y = random.normal(scale=scale, size=(4, columns))
        assert not compared(y, y * (1 + noise * random.uniform(-1, 1, y.shape)), datatype="FP64").objection


class TestTheLargestValue:
    def test_it_must_be_at_the_same_place(self) -> None:
        found = compared(floats([1, 0.98, 0], [1, 0, 0]), floats([0.98, 1, 0], [1, 0, 0]))
        assert found.top1 == 0.5
        assert found.objection == "the largest value of 'y' is elsewhere in 1 rows"

    def test_unless_nobody_asks_for_it(self) -> None:
        assert not compared(floats([1, 0.98, 0]), floats([0.98, 1, 0]), tolerance=Tolerance(top1=False)).objection

    def test_two_values_within_a_hundredth_of_the_spread_are_a_tie(self) -> None:
        found = compared(floats([1, 0.991, 0], [1, 0, 0]), floats([0.991, 1, 0], [1, 0, 0]))
        assert (found.top1, found.objection) == (1.0, "")

    def test_two_large_values_that_differ_by_noise_are_a_tie(self) -> None:
        assert not compared(floats([1000, 1000.05]), floats([1000.05, 1000])).objection

    def test_two_near_probabilities_are_none(self) -> None:
        assert compared(floats([0.501, 0.499]), floats([0.499, 0.501])).objection

    def test_where_all_are_ties_all_agree(self) -> None:
        assert compared(floats([1, 0.995, 0]), floats([0.995, 1, 0])).top1 == 1.0


class TestSingleValues:
    def test_there_is_no_cosine(self) -> None:
        assert compared(floats([1], [2]), floats([1], [2])) == Agreement(None, None, "")

    def test_they_may_be_off_by_a_hundredth(self) -> None:
        assert not compared(floats([1], [2]), floats([1], [2.01])).objection
        found = compared(floats([1], [2]), floats([1], [2.04]))
        assert found.objection == "'y' is off by 0.02 of its size, more than 0.01"

    def test_a_small_one_among_large_ones_is_as_coarse_as_they_are(self) -> None:
        assert not compared(floats([0.001], [100]), floats([0.4], [100])).objection

    def test_the_sign_counts(self) -> None:
        assert compared(floats([1], [1]), floats([1], [-1])).objection


class TestWhatIsNotFinite:
    @pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
    def test_on_one_engine_only_it_is_refused(self, odd: float) -> None:
        good, bad = floats([1, 2]), floats([1, odd])
        assert "NaN or infinity" in compared(good, bad).objection
        assert "NaN or infinity" in compared(bad, good).objection

    @pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
    def test_at_the_same_places_the_others_are_compared(self, odd: float) -> None:
        assert not compared(floats([1, odd, 2]), floats([1, odd, 2])).objection
        assert compared(floats([1, odd, 2]), floats([2, odd, 1])).objection

    def test_infinities_have_a_sign(self) -> None:
        assert compared(floats([1, np.inf]), floats([1, -np.inf])).objection

    def test_a_row_of_nothing_else_agrees(self) -> None:
        assert not compared(floats([np.nan, np.nan]), floats([np.nan, np.nan])).objection


class TestOtherDatatypes:
    @pytest.mark.parametrize(
        ("datatype", "good", "bad"),
        [
            ("INT64", np.array([[1, 2]]), np.array([[1, 3]])),
            ("BOOL", np.array([[True]]), np.array([[False]])),
            ("BYTES", np.array([[b"cat"]], object), np.array([[b"dog"]], object)),
        ],
    )
    def test_they_are_equal_or_refused(self, datatype: str, good: Any, bad: Any) -> None:
        assert compared(good, good.copy(), datatype=datatype) == Agreement(None, None, "")
        assert compared(good, bad, datatype=datatype).objection == "'y' is not equal"


class TestForm:
    def test_another_shape_is_refused(self) -> None:
        found = compared(floats([1, 2]), floats([1], [2]))
        assert found.objection == "'y' is of shape [2, 1] instead of [1, 2] (sample 1)"

    def test_another_type_is_refused(self) -> None:
        found = compared(floats([1, 2]), floats([1, 2]).astype(np.float64))
        assert found.objection == "'y' is of float64 instead of float32 (sample 1)"

    def test_another_number_of_outputs_is_refused(self) -> None:
        spec, y = TensorSpec("y", "FP32", [2]), floats([1, 2])
        assert (
            agreement((spec,), [[y]], [[y, y]], Tolerance(), batched=True).objection == "it has 2 outputs instead of 1"
        )

    def test_the_first_objection_is_told(self) -> None:
        specs = (TensorSpec("a", "INT64", [1]), TensorSpec("b", "INT64", [1]))
        one, two = np.array([[1]]), np.array([[2]])
        assert agreement(specs, [[one, one]], [[two, two]], Tolerance(), batched=True).objection == "'a' is not equal"

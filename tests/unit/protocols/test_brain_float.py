"""BF16 against the definition and against another implementation of it."""

import ml_dtypes
import numpy as np

from guepard.protocols.brain_float import from_float32, to_float32


def test_every_pattern_survives_both_ways() -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    floats = to_float32(patterns)
    again = from_float32(floats)
    nan = np.isnan(floats)
    assert np.array_equal(again[~nan], patterns[~nan])
    assert np.isnan(to_float32(again[nan])).all()


def test_rounding_is_to_nearest_and_ties_go_to_even() -> None:
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**32, 200_000, dtype=np.uint32)
    ties = (bits[:50_000] & 0xFFFF_0000) | 0x8000
    floats = np.concatenate([bits, ties, ties + 1, ties - 1]).view(np.float32)
    floats = floats[~np.isnan(floats)]
    with np.errstate(over="ignore"):
        expected = floats.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal(from_float32(floats), expected)


def test_nan_never_turns_into_an_infinity() -> None:
    quiet_and_signalling = np.array([0x7F80_0001, 0xFF80_0001, 0x7FFF_FFFF, 0x7FC0_0000], np.uint32).view(np.float32)
    assert np.isnan(to_float32(from_float32(quiet_and_signalling))).all()


def test_shapes_are_kept() -> None:
    for shape in ((), (0,), (2, 0), (2, 3)):
        assert to_float32(from_float32(np.zeros(shape, np.float32))).shape == shape


def test_memory_order_does_not_matter() -> None:
    floats = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(to_float32(from_float32(floats.T)), floats.T)
    assert np.array_equal(to_float32(from_float32(floats).T), floats.T)

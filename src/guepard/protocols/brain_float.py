"""BF16 as numpy can hold it: the upper 16 bits of an FP32."""

import numpy as np

from guepard.core.tensor import Array


def from_float32(values: Array) -> Array:
    """FP32 -> uint16 bit patterns, rounding to nearest, ties to even. NaN stays NaN."""
    bits = np.asarray(values, np.float32, order="C").view(np.uint32)
    rounded = bits + (((bits >> 16) & 1) + 0x7FFF)
    nan = np.isnan(values)
    if nan.any():
        rounded = np.where(nan, bits | 0x0040_0000, rounded)
    return (rounded >> 16).astype(np.uint16)


def to_float32(patterns: Array) -> Array:
    """uint16 bit patterns -> FP32, exactly."""
    return (np.asarray(patterns, np.uint16, order="C").astype(np.uint32) << 16).view(np.float32)

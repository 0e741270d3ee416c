"""Requests of any length for a model with a mask, and what that model answers to each, worked out alone."""

from typing import Any

import numpy as np

from guepard.core.padding import CutOutput, PaddedInput, Padding
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array
from tests.unit.batching.arrivals import arriving

IDS = PaddedInput("ids", 0, 1, np.int64(-7))
MASK = PaddedInput("mask", 1, 1, np.int64(0))
HIDDEN = CutOutput("hidden", 1, 1)


def padding(**fields: Any) -> Padding:
    """Of `ids` and `mask`, and of the second of two outputs, unless `fields` say otherwise."""
    return Padding(**{"inputs": (IDS, MASK), "outputs": (HIDDEN,)} | fields)


def sequence(length: int, rows: int = 1, *, seed: int = 0, key: object = None) -> InferenceRequest:
    """Inputs `ids` and `mask` INT64 [rows, length], and `scale` FP32 [rows, 2], which is not padded."""
    request = arriving(rows, key=key)
    ids = np.random.default_rng((seed, length, rows)).integers(1, 1_000, (rows, length))
    request.arrays = [ids, np.ones_like(ids), np.full((rows, 2), seed + 1, np.float32)]
    request.length = length
    return request


def run(arrays: Any) -> list[Array]:
    """`total` [n] is the scaled sum of the ids that the mask keeps, `hidden` [n, length] their running sum.

    Padding must not be seen: what the mask hides spoils the answer if it was filled with anything but -7.
    """
    ids, mask, scale = arrays
    assert ((mask == 1) | (ids == -7)).all()
    kept = np.where(mask == 1, ids, 0)
    return [kept.sum(axis=1) * scale[:, 0], kept.cumsum(axis=1)]

"""`protocols/flat_numbers.py`, beside what numpy does by itself."""

import numpy as np

from benchmarks.micro.timing.case import Case
from guepard.protocols.flat_numbers import FlatNumbers


def cases() -> list[Case]:
    floats, integers = FlatNumbers("FP32"), FlatNumbers("INT64")
    few, many = [0.1 * number for number in range(30)], [0.1 * number for number in range(10_000)]
    ids = list(range(128))
    return [
        Case("30 FP32", lambda: floats.array([1, 30], few)),
        Case("30 FP32, numpy", lambda: np.array(few, np.float32).reshape([1, 30])),
        Case("128 INT64", lambda: integers.array([1, 128], ids)),
        Case("10,000 FP32", lambda: floats.array([1, 10_000], many)),
        Case("10,000 FP32, numpy", lambda: np.array(many, np.float32).reshape([1, 10_000])),
    ]

"""One row of three values for every datatype, its limits among them."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

SAMPLES: dict[str, NDArray[Any]] = {
    "BOOL": np.array([[True, False, True]]),
    "UINT8": np.array([[0, 7, 255]], np.uint8),
    "UINT16": np.array([[0, 7, 65_535]], np.uint16),
    "UINT32": np.array([[0, 7, 2**32 - 1]], np.uint32),
    "UINT64": np.array([[0, 2**53 + 1, 2**64 - 1]], np.uint64),
    "INT8": np.array([[-128, 0, 127]], np.int8),
    "INT16": np.array([[-(2**15), 0, 2**15 - 1]], np.int16),
    "INT32": np.array([[-(2**31), 0, 2**31 - 1]], np.int32),
    "INT64": np.array([[-(2**63), 2**53 + 1, 2**63 - 1]], np.int64),
    "FP16": np.array([[-65_504, 0.1, 6e-8]], np.float16),
    "FP32": np.array([[-3.4e38, 0.1, 1e-45]], np.float32),
    "FP64": np.array([[-1.7e308, 0.1, 5e-324]], np.float64),
    "BF16": np.array([[-3.3e38, 0.1, 1.5]], ml_dtypes.bfloat16),
    "BYTES": np.array([[b"hello", b"", '😀 "q"\n'.encode()]], object),
}

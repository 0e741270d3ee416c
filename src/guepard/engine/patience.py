"""How long executions may take before they pass for hung: learned from those that ended."""

import threading
from collections import deque

import numpy as np

from guepard.core.model_config import SECOND

LEAST_NS = 5 * SECOND

_FACTOR = 5
_PERCENTILE = 99
_REMEMBERED = 256


class Patience:
    """`ns` is the larger of 5 s and 5 times the 99th percentile of what was remembered. Any thread may remember."""

    __slots__ = ("_durations", "_lock", "ns")

    def __init__(self) -> None:
        self.ns = LEAST_NS
        self._durations: deque[int] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def remember(self, duration_ns: int) -> None:
        """Cost: nothing worth a word while executions are so short that the percentile cannot matter."""
        with self._lock:
            self._durations.append(duration_ns)
            if duration_ns * _FACTOR > LEAST_NS or self.ns > LEAST_NS:
                self.ns = max(LEAST_NS, _FACTOR * int(np.percentile(self._durations, _PERCENTILE)))

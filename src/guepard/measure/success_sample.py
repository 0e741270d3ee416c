"""When successes were due, when they ended and how long they took: as many as there is room for, evenly thinned out."""

import numpy as np
from numpy.typing import NDArray

from guepard.measure.load.outcomes import are_successes
from guepard.measure.load.records import Records

MOST = 1 << 20
"""Three columns of so many take 24 MiB."""

Integers = NDArray[np.int64]


class SuccessSample:
    """One in `every` successes. Times are nanoseconds since the start of the run."""

    def __init__(self) -> None:
        self.every = 1
        self._start_ns = 0
        self._seen = 0
        self._kept = 0
        self._parts: list[Integers] = []

    def begin(self, start_ns: int) -> None:
        self._start_ns = start_ns

    def add(self, records: Records) -> None:
        chosen = np.flatnonzero(are_successes(records.outcome))
        first = -self._seen % self.every
        self._seen += len(chosen)
        chosen = chosen[first :: self.every]
        due, done = records.intended_ns[chosen], records.done_ns[chosen]
        self._parts.append(np.stack((done - self._start_ns, due - self._start_ns, done - due)))
        self._kept += len(chosen)
        while self._kept > MOST:
            self._thin_out()

    def columns(self) -> tuple[Integers, Integers, Integers]:
        """Ended, due, latency, in the order in which they came."""
        ended, due, latency = self._whole()
        return ended, due, latency

    def _whole(self) -> Integers:
        whole = np.concatenate(self._parts, axis=1) if self._parts else np.zeros((3, 0), np.int64)
        self._parts = [whole]
        return whole

    def _thin_out(self) -> None:
        """Keep every second one. The number of those seen says which are next, whatever was kept."""
        whole = self._whole()[:, ::2].copy()
        self._parts = [whole]
        self._kept = whole.shape[1]
        self.every *= 2

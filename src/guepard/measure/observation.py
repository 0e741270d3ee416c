"""Everything that generator processes tell of one run, while it goes on."""

from typing import NamedTuple

import numpy as np

from guepard.measure.histogram import Histogram
from guepard.measure.load.records import Column, Gaps, Records
from guepard.measure.success_sample import SuccessSample
from guepard.measure.tally import Tally
from guepard.measure.totals import WindowTotals

_NS = 1_000_000_000
_KEPT_TIMINGS = 4_096


class Glimpse(NamedTuple):
    """How a run stands. `last_second` is None before anything has ended."""

    elapsed_s: float
    last_second: WindowTotals | None
    failed: dict[int, int]
    """Since the start, by outcome."""


class Observation:
    """The sink of one run. Belongs to one thread."""

    def __init__(self) -> None:
        self.turns = Histogram()
        self.connects = Histogram()
        self.handshakes = Histogram()
        self.timings: list[bytes] = []
        self.last_due_s = 0.0
        self.last_end_s = 0.0
        self.count = 0
        self._start_ns = 0
        self.successes = SuccessSample()
        self.tally = Tally(0)

    def begin(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self.tally = Tally(start_ns)
        self.successes.begin(start_ns)

    def add_records(self, records: Records) -> None:
        self.tally.add_records(records)
        self.successes.add(records)
        self.count += len(records)
        self.last_due_s = max(self.last_due_s, (int(records.intended_ns.max()) - self._start_ns) / _NS)
        self.last_end_s = max(self.last_end_s, (int(records.done_ns.max()) - self._start_ns) / _NS)

    def add_gaps(self, gaps: Gaps) -> None:
        self.tally.add_gaps(gaps)

    def add_turns(self, turns_ns: Column) -> None:
        self.turns.record(turns_ns)

    def add_connects(self, connects_ns: Column) -> None:
        self.connects.record(connects_ns)

    def add_handshakes(self, handshakes_ns: Column) -> None:
        self.handshakes.record(handshakes_ns)

    def add_timings(self, timings: list[bytes]) -> None:
        """Kept up to a bound, thinned out evenly beyond it."""
        self.timings += timings
        if len(self.timings) > 2 * _KEPT_TIMINGS:
            chosen = np.linspace(0, len(self.timings) - 1, _KEPT_TIMINGS).astype(int)
            self.timings = [self.timings[index] for index in chosen]

    def glimpse(self, elapsed_s: float) -> Glimpse:
        """Cost: some milliseconds for the last second's histograms; twice a second will do."""
        end_s = self.tally.end_s
        last_second = self.tally.window(max(0.0, end_s - 1), end_s) if end_s else None
        return Glimpse(elapsed_s, last_second, self.tally.failed)

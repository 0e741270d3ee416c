"""What happened in a stretch of time, counted. `Tally` says which request counts where."""

from dataclasses import dataclass

from guepard.measure.histogram import Histogram


@dataclass(frozen=True, slots=True)
class WindowTotals:
    """Units: seconds since the start of the run; histograms in nanoseconds. Outcomes are those of `outcomes.py`."""

    start_s: float
    end_s: float

    offered: int
    """Requests that were due."""
    sent: int
    """Requests whose sending began, whenever they were due."""
    blocked: int
    """Requests that were due and found every allowed connection busy."""
    repeated: int
    """Requests that were due and whose payload had been sent before."""

    succeeded: int
    """Requests that ended in success, whenever they were due."""
    failed: dict[int, int]
    """The other ends, by outcome."""
    received_bytes: int
    """Of everything that ended."""
    pieces: int
    """Pieces of streams that came, first ones and later ones."""

    latency: Histogram
    """Successes that were due, from the intended send time."""
    service: Histogram
    """The same, from the real send time."""
    first: Histogram
    """Those of them that are streams with pieces, from the intended send time to the first one."""
    between: Histogram
    """Times between two pieces, of all streams."""
    failure_latency: dict[int, Histogram]
    """Failures that were due, from the intended send time, by outcome."""
    send_lag: Histogram
    """Requests that were due: from the intended send time until the generator sent them, or found every allowed
    connection busy."""

    mean_in_flight: float
    """Requests sent and not ended, averaged over time."""
    in_flight: int
    """The same, at the end."""

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s

    @property
    def failed_count(self) -> int:
        return sum(self.failed.values())

    @property
    def repeat_share(self) -> float:
        """Of the requests that were due, those whose payload had been sent before; 0 if none was due."""
        return self.repeated / self.offered if self.offered else 0.0


@dataclass(frozen=True, slots=True)
class SliceTotals:
    """A piece of the time line, as `WindowTotals` counts it."""

    start_s: float
    end_s: float
    offered: int
    succeeded: int
    failed: dict[int, int]
    latency: Histogram
    in_flight: int

    @property
    def failed_count(self) -> int:
        return sum(self.failed.values())

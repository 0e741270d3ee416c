"""How long each step around a model took."""

from collections.abc import Mapping, Sequence
from threading import Lock

from guepard.telemetry.histogram import HistogramSnapshot, LatencyHistogram


class StepDurations:
    """Counts of one model version, by the names of its steps. From any thread: steps run beside the event loop.

    Cost: some 0.3 µs for each call and 0.1 µs for each step.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._histograms = {name: LatencyHistogram() for name in names}
        self._lock = Lock()

    def record(self, names: Sequence[str], durations_ns: Sequence[int]) -> None:
        """Count one run of the steps `names`."""
        histograms = self._histograms
        with self._lock:
            for name, duration in zip(names, durations_ns, strict=True):
                histograms[name].append(duration)

    def read(self) -> Mapping[str, HistogramSnapshot]:
        with self._lock:
            return {name: histogram.snapshot() for name, histogram in self._histograms.items()}

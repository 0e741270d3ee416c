"""How far a measurement is."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a measurement is. Rates, latencies and the lag are of the last second; None where nothing is known.

    errors: counts since the start of the run, by kind. step: where a search or a comparison stands, in words.
    """

    phase: str
    elapsed_s: float
    total_s: float | None = None
    offered_rate: float | None = None
    achieved_rate: float | None = None
    in_flight: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    send_lag_p99_ms: float | None = None
    step: str = ""

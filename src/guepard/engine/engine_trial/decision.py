"""Which engine executes a model, and the figures that decided it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from guepard.core.engine_options import PRECISIONS, Precision

CLEARLY_FASTER = 1 / 0.9
"""Times as fast as the reference engine an engine must be, to take its place; else noise might decide."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An engine in a precision, as it was tried beside the reference engine.

    Units: `row_ns` and `reference_row_ns` nanoseconds for a row, `load_ns` to load it. `ratio` is how many times as
    fast it is, by the least of all batch sizes that were tried. `cosine` and `top1` are those of `agreement`. None:
    it did not come to that. `rejected` is why it may not be chosen; "": it may. `is_cut`: for lack of time, which
    another time there may be.
    """

    engine: str
    precision: str
    row_ns: int | None = None
    reference_row_ns: int | None = None
    ratio: float | None = None
    cosine: float | None = None
    top1: float | None = None
    load_ns: int | None = None
    rejected: str = ""
    is_cut: bool = False

    @property
    def name(self) -> str:
        return f"{self.engine} in {self.precision}" if self.precision else self.engine

    def facts(self) -> dict[str, Any]:
        """For people and programs that ask about the model. What is not known is left out."""
        known = {
            "engine": self.engine,
            "precision": self.precision,
            "row_ms": _ms(self.row_ns),
            "rows_per_second": round(1e9 / self.row_ns, 1) if self.row_ns else None,
            "reference_row_ms": _ms(self.reference_row_ns),
            "ratio": self.ratio,
            "worst_cosine": None if self.cosine is None else round(self.cosine, 7),
            "top1_agreement": None if self.top1 is None else round(self.top1, 4),
            "load_ms": _ms(self.load_ns),
            "rejected": self.rejected or None,
        }
        return {key: value for key, value in known.items() if value is not None}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """`engine` is the reference engine and `precision` None unless a candidate won. `reason` completes "chosen: ".

    `is_final`: more time would hardly have changed it.
    """

    engine: str
    precision: Precision | None
    reason: str
    ratio: float
    candidates: tuple[Candidate, ...]
    duration_ns: int
    is_final: bool = True

    def facts(self, *, cached: bool, duration_ns: int) -> dict[str, Any]:
        """`duration_ns`: what it took this time, which is little where it was `cached`."""
        return {
            "candidates": [candidate.facts() for candidate in self.candidates],
            "ratio": self.ratio,
            "cached": cached,
            "decision_seconds": round(duration_ns / 1e9, 3),
        }


def decide(reference: str, candidates: Sequence[Candidate], duration_ns: int, *, is_complete: bool = True) -> Decision:
    """The fastest of those that are clearly faster than `reference`; of two about as fast, the more precise.

    `is_complete`: nothing is left to be tried.
    """
    able = [candidate for candidate in candidates if not candidate.rejected and candidate.ratio is not None]
    faster = [candidate for candidate in able if _ratio(candidate) >= CLEARLY_FASTER]
    told = tuple(candidate if candidate in faster else _not_faster(candidate) for candidate in candidates)
    if not faster:
        reasons = [f"{candidate.name}: {candidate.rejected}" for candidate in told]
        if not is_complete:
            reasons.append("there was no time for more")
        return Decision(
            engine=reference,
            precision=None,
            reason=f"the reference engine: {'; '.join(reasons) or 'there is no other to try'}",
            ratio=1.0,
            candidates=told,
            duration_ns=duration_ns,
            is_final=is_complete and not any(candidate.is_cut for candidate in told),
        )
    fastest = max(map(_ratio, faster))
    best = min(
        (candidate for candidate in faster if _ratio(candidate) * CLEARLY_FASTER >= fastest),
        key=lambda candidate: (_rank(candidate.precision), -_ratio(candidate)),
    )
    return Decision(
        engine=best.engine,
        precision=best.precision if best.precision in PRECISIONS else None,
        reason=_praise(best, reference),
        ratio=_ratio(best),
        candidates=told,
        duration_ns=duration_ns,
    )


def _praise(best: Candidate, reference: str) -> str:
    figures = f"{_ratio(best):.2f} times as fast as {reference}"
    if best.row_ns and best.reference_row_ns:
        figures += f" ({best.row_ns / 1e6:.3g} ms a row against {best.reference_row_ns / 1e6:.3g})"
    return figures if best.cosine is None else f"{figures}, worst cosine {best.cosine:.6f}"


def _not_faster(candidate: Candidate) -> Candidate:
    if candidate.rejected:
        return candidate
    if candidate.ratio is None:
        return msgspec.structs.replace(candidate, rejected="it was not measured")
    return msgspec.structs.replace(candidate, rejected=f"{candidate.ratio:.2f} times as fast, not clearly faster")


def _ratio(candidate: Candidate) -> float:
    return candidate.ratio or 0.0


def _rank(precision: str) -> int:
    return PRECISIONS.index(precision) if precision in PRECISIONS else len(PRECISIONS)


def _ms(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else round(duration_ns / 1e6, 3)

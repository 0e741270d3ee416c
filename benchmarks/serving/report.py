"""What a benchmark says: figures with their targets, as a table for people and a JSON document for programs."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that a figure should keep."""

    bound: float
    sense: Literal["at most", "at least"]

    def is_met(self, value: float) -> bool:
        return value <= self.bound if self.sense == "at most" else value >= self.bound


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str
    target: Target | None = None

    @property
    def is_met(self) -> bool | None:
        """None for a figure that is only told."""
        return self.target.is_met(self.value) if self.target else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A question's figures and the samples that they are made of, each with an `is_quiet`."""

    question: str
    figures: Sequence[Figure]
    samples: Sequence[dict[str, Any]]

    @property
    def disturbed_count(self) -> int:
        """Samples during which the machine was busy with other work."""
        return sum(not sample["is_quiet"] for sample in self.samples)


def at_most(bound: float) -> Target:
    return Target(bound, "at most")


def at_least(bound: float) -> Target:
    return Target(bound, "at least")


def table(figures: Iterable[Figure]) -> str:
    """Aligned columns: figure, measured, target, met."""
    rows = [("figure", "measured", "target", "met")]
    for figure in figures:
        target = f"{figure.target.sense} {figure.target.bound:g}" if figure.target else ""
        met = {True: "yes", False: "NO", None: ""}[figure.is_met]
        rows.append((figure.name, f"{_significant(figure.value)} {figure.unit}".rstrip(), target, met))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    rows.insert(1, ("-" * widths[0], "-" * widths[1], "-" * widths[2], "-" * widths[3]))
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def write_json(path: Path, environment: dict[str, Any], settings: dict[str, Any], answers: Sequence[Answer]) -> None:
    document = {
        "environment": environment,
        "settings": settings,
        "answers": [
            {
                "question": answer.question,
                "disturbed_count": answer.disturbed_count,
                "figures": [asdict(figure) | {"met": figure.is_met} for figure in answer.figures],
                "samples": list(answer.samples),
            }
            for answer in answers
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def _significant(value: float) -> str:
    """Three digits that mean something: 0.0123, 4.56, 78.9, 1,234."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

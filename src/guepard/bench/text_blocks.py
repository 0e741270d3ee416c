"""Blocks of text with a label at their left, and tables whose columns line up."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from guepard.bench.figures import one_line
from guepard.bench.terminal import Ink, clipped, shown_width

LABEL_COLUMNS = 12


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together. Without a label they begin at the left edge."""

    label: str
    lines: Sequence[str]


def laid_out(blocks: Iterable[Block], ink: Ink, width: int) -> Iterator[str]:
    """The blocks, one below the other."""
    for block in blocks:
        for index, line in enumerate(block.lines):
            label = (block.label if index == 0 else "").ljust(LABEL_COLUMNS) if block.label else ""
            yield ink.strong(label) + line if label.strip() else label + line


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """`text` in lines of at most `width`; the second and later ones two columns further in."""
    clean = one_line(text, 2000)
    lines = textwrap.wrap(clean, max(width, 20), initial_indent=indent, subsequent_indent=indent + "  ")
    return lines or [""]


class Columns:
    """A table. `sides` has `<` or `>` for each column: which side its cells keep to."""

    def __init__(self, head: Sequence[str], sides: str) -> None:
        self._rows: list[tuple[tuple[str, ...], Callable[[str], str]]] = [(tuple(head), str)]
        self._sides = sides

    def add(self, cells: Sequence[str], paint: Callable[[str], str] = str) -> None:
        """A row. With fewer cells than columns the last one has the rest of the line to itself."""
        self._rows.append((tuple(cells), paint))

    def lines(self, ink: Ink, room: int) -> Iterator[str]:
        """None is wider than `room`."""
        count = len(self._sides)
        widths = [0] * count
        for cells, _ in self._rows:
            aligned = cells if len(cells) == count else cells[:-1]
            for index, cell in enumerate(aligned):
                widths[index] = max(widths[index], shown_width(cell))
        for number, (cells, paint) in enumerate(self._rows):
            places = list(zip(cells, widths, self._sides, strict=False))
            tail = [] if len(cells) == count else [places.pop()[0]]
            line = clipped("  ".join([_padded(*place) for place in places] + tail), room).rstrip()
            yield ink.faint(line) if number == 0 else paint(line)


def _padded(text: str, width: int, side: str) -> str:
    blanks = " " * (width - shown_width(text))
    return text + blanks if side == "<" else blanks + text

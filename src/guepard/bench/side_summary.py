"""The two sides of a comparison as blocks of text, the blocks of each taken together."""

from collections.abc import Iterator, Sequence

from guepard.bench import figures
from guepard.bench.reading import Side, pooled_latency
from guepard.bench.terminal import Ink
from guepard.bench.text_blocks import Block, Columns, wrapped
from guepard.measure.figures import percentile_text
from guepard.measure.histogram import Histogram

SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


def side_blocks(sides: Sequence[Side], ink: Ink, room: int) -> Iterator[Block]:
    """Latencies of successes side by side, then the errors of each side."""
    pools = [pooled_latency(side.runs) for side in sides]
    columns = Columns(("ms", *(side.letter for side in sides)), "<" + ">" * len(sides))
    for share in SHARES:
        cells = [quantile_ms(pool, share) for pool in pools]
        columns.add((percentile_text(share * 100), *cells))
    columns.add(("samples", *(figures.count(pool.count) for pool in pools)))
    yield Block("Latency", list(columns.lines(ink, room)))
    for side in sides:
        yield Block(f"Errors {side.letter}", wrapped(side_errors(side), room))


def side_errors(side: Side) -> str:
    """Failures by kind over all blocks of one side."""
    counts: dict[str, int] = {}
    for run in side.runs:
        for error in run.errors:
            counts[error.name] = counts.get(error.name, 0) + error.count
    if not counts:
        return "none"
    offered = sum(run.offered for run in side.runs)
    share = figures.percent(sum(counts.values()) / offered if offered else None)
    kinds = (f"{figures.one_line(name, 40)} {figures.count(count)}" for name, count in counts.items())
    return f"{', '.join(kinds)}; {share} of {figures.count(offered)} requests"


def quantile_ms(pool: Histogram, share: float) -> str:
    """Needs ten samples beyond it, like every percentile that is told."""
    if pool.count * (1 - share) < 10:
        return "n too small"
    return figures.number(pool.quantile(share) / 1e6, 4)

"""Figures as text, in columns that are the same in the terminal and on the page: `measure/figures.py` has those of
sentences. Foreign text, made fit for one line."""

import math

ABSENT = "-"


def number(value: float | None, digits: int = 3) -> str:
    """`digits` significant digits, thousands separated, no exponent: 0.0123, 1.23, 12.3, 123, 1,234."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    if decimals > 9:
        return "0"
    return f"{value:,.{decimals}f}"


def count(value: float) -> str:
    return f"{value:,.0f}"


def plain(value: float | None, digits: int = 10) -> str:
    """A figure that somebody chose, as it was written: 50, 0.5, 1,000."""
    return ABSENT if value is None else f"{float(f'{value:.{digits}g}'):,.10g}"


def percent(share: float | None) -> str:
    """A share of 1 as percent. What is little, but not nothing, doesn't read as nothing, nor does nearly all as all."""
    if share is None or not math.isfinite(share):
        return ABSENT
    value = share * 100
    if 0 < value < 0.01:
        return "< 0.01 %"
    if 99.95 <= value < 100:
        return "> 99.9 %"
    return f"{value:.0f} %" if value in (0, 100) else f"{value:,.{1 if abs(value) >= 1 else 2}f} %"


def change(share: float | None) -> str:
    """A relative difference with its sign: +3.2 %."""
    if share is None or not math.isfinite(share):
        return ABSENT
    return f"{share * 100:+.1f} %"


def seconds(value: float) -> str:
    """A span: 850 ms, 12.5 s, 3 min 20 s."""
    if value < 1:
        return f"{number(value * 1e3)} ms"
    if value < 120:
        return f"{value:.4g} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def size(value: float) -> str:
    """Bytes in decimal units: 812 B, 602 kB, 1.23 MB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5:
            return f"{number(value) if unit != 'B' else count(value)} {unit}"
        value /= 1000
    return f"{number(value)} PB"


def binary_size(value: float) -> str:
    """Memory in the units that it is sold in: 16 GiB."""
    return f"{number(value / 2**30)} GiB"


def interval(low: float | None, high: float | None, between: str = " .. ") -> str:
    """`12.1 .. 12.9`; an end that the sample cannot tell is `?`."""
    if low is None and high is None:
        return ABSENT
    return between.join("?" if end is None else number(end, 4) for end in (low, high))


def one_line(text: str, limit: int = 500) -> str:
    """Text of others on one line: control characters, which could move a terminal's cursor, as escapes."""
    shown = "".join(
        character if character.isprintable() else " " if character.isspace() else repr(character)[1:-1]
        for character in text[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."

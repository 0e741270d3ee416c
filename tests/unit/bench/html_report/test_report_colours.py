"""Colours of the report can be seen: WCAG 2.2, 1.4.3 (text, 4.5 to 1) and 1.4.11 (graphics, 3 to 1)."""

import re
from importlib.resources import files

import pytest

CSS = files("guepard.bench.html_report").joinpath("report.css").read_text("utf-8")
LIGHT, DARK = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[:2]
SERIES = [f"s{number}" for number in range(1, 9)]


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#\w+);", block))


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_series_and_words_stand_out_from_what_is_behind_them(theme: str) -> None:
    found = colours(LIGHT) | colours(theme)
    pairs = [(name, "card", 3.0) for name in SERIES]
    pairs += [(name, behind, 4.5) for name in ("text", "faint", "accent") for behind in ("page", "card")]
    pairs += [(name, f"{name}-page", 4.5) for name in ("good", "bad", "unknown")]
    weak = [pair for pair in pairs if contrast(found[pair[0]], found[pair[1]]) < pair[2]]
    assert not weak


def test_both_themes_name_the_same_colours() -> None:
    assert set(colours(LIGHT)) == set(colours(DARK))


def test_lines_that_share_a_chart_differ_by_more_than_colour() -> None:
    shapes = [re.search(rf"\.line\.{name} {{ ([^}}]+) }}", CSS) for name in ("s2", "s3", "s4", "s6", "under")]
    assert all(shapes)
    assert len({shape[1] for shape in shapes if shape}) == len(shapes)

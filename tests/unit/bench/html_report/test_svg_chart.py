"""Charts: where things are drawn, and what is said about them."""

import re
from xml.etree import ElementTree

from guepard.bench.html_report.scales import Linear
from guepard.bench.html_report.svg_chart import Chart, Key, figure

SPACE = "{http://www.w3.org/2000/svg}"


def a_chart() -> Chart:
    return Chart("speed", "Speed <fast>", Linear(0, 10), Linear(0, 100), x_label="seconds", y_label="ms")


def drawn(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg("how fast").replace("<svg ", f'<svg xmlns="{SPACE[1:-1]}" ', 1))


def test_the_drawing_is_well_formed_and_has_a_name_and_a_description() -> None:
    chart = a_chart()
    chart.line([(0, 0), (10, 100)], "s1", "p50")
    root = drawn(chart)
    names = {child.get("id"): child.text for child in root if child.tag in (f"{SPACE}title", f"{SPACE}desc")}
    assert names == {"speed-title": "Speed <fast>", "speed-words": "how fast"}
    assert root.get("aria-labelledby") == " ".join(name for name in names if name)
    assert root.get("role") == "img"


def test_a_line_has_gaps_where_nothing_is_known_and_a_lone_point_is_a_dot() -> None:
    chart = a_chart()
    chart.line([(0, 0), (1, None), (2, 50), (3, 60), (4, None), (5, 70)], "s1")
    path = next(each for each in drawn(chart).iter(f"{SPACE}path"))
    data = path.get("d") or ""
    assert re.sub(r"[\d. ]+", "", data.replace("h0", "h")) == "MhMLMh"
    assert data.startswith(f"M{chart.left_of(0):.1f} {chart.top_of(0):.1f}h0")


def test_what_is_beyond_the_axes_stays_at_their_edge() -> None:
    chart = a_chart()
    assert chart.left_of(-5) == chart.left_of(0)
    assert chart.top_of(1e9) == chart.top_of(100)
    assert chart.top_of(100) < chart.top_of(0)


def test_a_bar_of_nothing_is_not_drawn_and_a_small_one_is_seen() -> None:
    chart = a_chart()
    chart.bar(0, 1, 0, 0, "s1")
    chart.bar(1, 2, 0, 0.001, "s1")
    bars = [each for each in drawn(chart).iter(f"{SPACE}rect") if each.get("class") == "bar s1"]
    assert [float(each.get("height") or 0) for each in bars] == [0.75]


def test_the_legend_says_what_marks_mean_and_the_table_stands_beside() -> None:
    chart = a_chart()
    chart.line([(0, 1)], "s1", "p50 & more")
    chart.explain(Key("s2", "errors", "bar"))
    page = figure(chart, "how fast", data=None)
    assert re.findall(r"</svg> ([^<]+)</li>", page) == ["p50 &amp; more", "errors"]
    assert "<details>" not in page
    assert "The same as a table" in figure(chart, "how fast", data=chart.legend())

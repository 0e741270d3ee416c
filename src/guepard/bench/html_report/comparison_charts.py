"""A and B over each other, and the differences with their intervals."""

from collections.abc import Sequence

from guepard.bench import figures
from guepard.bench.html_report.distribution_charts import Curve, percentile_figure
from guepard.bench.html_report.markup import Markup, table, tag
from guepard.bench.html_report.scales import Linear
from guepard.bench.html_report.svg_chart import Chart, Key, figure
from guepard.bench.reading import Side, pooled_latency
from guepard.measure.results import Comparison

_STYLES = ("s1", "s3", "s2", "s4")
_ROW = 46
_VERDICT_STYLES = {"faster": "good", "slower": "bad", "cannot tell": "unknown"}


def sides_chart(sides: Sequence[Side], name: str) -> Markup | None:
    """The blocks of each side as one distribution, over each other."""
    curves = []
    for index, side in enumerate(sides):
        pool = pooled_latency(side.runs)
        if pool.count:
            worth = sum(run.latency.effective_count for run in side.runs)
            curves.append(Curve(side.letter, _STYLES[index % len(_STYLES)], pool, worth))
    if not curves:
        return None
    description = "Latency of successes from the intended send time, all blocks of a side together."
    return percentile_figure(curves, name, "A and B by percentile", description)


def differences_chart(comparisons: Sequence[Comparison], name: str) -> Markup:
    """One row a metric: the difference of B against A with its interval, over what would not show."""
    ends = [0.02]
    for each in comparisons:
        values = (each.difference.value, each.difference.low, each.difference.high, each.minimum_detectable)
        ends += [abs(value) for value in values if value is not None]
    reach = max(ends) * 1.1
    x = Linear(-reach, reach, is_rounded=False, label=_sided)
    rows = len(comparisons)
    chart = Chart(
        name, "B against A", x, Linear(0, rows, is_rounded=False), x_label="difference of B, as a share of A",
        y_label="", height=90 + _ROW * rows, left=14, y_marks=0,
    )  # fmt: skip
    for index, each in enumerate(comparisons):
        middle = rows - index - 0.62
        least = each.minimum_detectable
        chart.bar(-least, least, middle - 0.2, middle + 0.2, "undetectable")
        low, high = each.difference.low, each.difference.high
        style = _VERDICT_STYLES[each.verdict]
        chart.line(
            [(low if low is not None else -reach, middle), (high if high is not None else reach, middle)],
            f"{style} whisker",
        )
        chart.dot(each.difference.value, middle, style)
        label = f"{figures.one_line(each.metric, 40)}: {each.verdict}"
        chart.words(-reach, middle + 0.29, label, anchor="start")
    chart.upright(0, "edge")
    chart.explain(Key("undetectable", "less than this would not show", "bar"), Key("unknown whisker", "95 % interval"))
    return figure(
        chart, "Left of the middle B has less, right of it more. An interval over the middle cannot tell.", None
    )


def _sided(share: float) -> str:
    return f"{share * 100:+.4g} %" if share else "0"


def comparisons_table(comparisons: Sequence[Comparison]) -> Markup:
    """The verdicts in figures."""
    rows = [
        (
            each.metric,
            tag("span", each.verdict, class_=f"pill {_VERDICT_STYLES[each.verdict]}"),
            figures.change(each.difference.value),
            f"{figures.change(each.difference.low)} to {figures.change(each.difference.high)}",
            figures.percent(each.minimum_detectable),
            figures.count(each.blocks),
            each.says,
        )
        for each in comparisons
    ]
    head = ("metric", "B is", "difference", "95 % interval", "detectable from", "blocks", "says")
    return table(head, rows, caption="B against A", classes=[None, None, "n", "n", "n", "n"])

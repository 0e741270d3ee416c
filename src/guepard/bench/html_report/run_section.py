"""One run on the page: its figures, its charts, what it says of the generator and of the server."""

from collections.abc import Iterator, Sequence

from guepard.bench import figures
from guepard.bench.html_report.distribution_charts import (
    generator_percentiles,
    latency_histogram,
    run_percentiles,
    stream_percentiles,
)
from guepard.bench.html_report.document_sections import facts
from guepard.bench.html_report.markup import Content, Markup, joined, table, tag
from guepard.bench.html_report.phases_chart import phases_chart
from guepard.bench.html_report.time_charts import (
    errors_over_time,
    in_flight_over_time,
    latency_over_time,
    throughput_over_time,
)
from guepard.bench.run_summary import CLOSED_LOOP_REMARK, asked, too_small, value_at
from guepard.measure.figures import percentile_text
from guepard.measure.results import Latency, Percentile, Run, ServerView, Slo


def run_section(run: Run, slo: Slo | None, name: str, *, is_full: bool) -> Markup:
    """Everything about a run; without `is_full` the charts that a page with many runs can bear. `name` is for ids."""
    charts = [
        latency_over_time(run, slo, f"{name}-latency"),
        run_percentiles(run, f"{name}-percentiles"),
        errors_over_time(run, f"{name}-errors"),
    ]
    if is_full:
        charts += [
            throughput_over_time(run, f"{name}-throughput"),
            latency_histogram(run, f"{name}-histogram"),
            in_flight_over_time(run, f"{name}-flight"),
            stream_percentiles(run, f"{name}-stream"),
            generator_percentiles(run, f"{name}-lag"),
            phases_chart(run, f"{name}-phases"),
        ]
    return joined(
        (
            tag("p", f"{asked(run.load)}.", class_="quiet"),
            _cards(run, slo),
            tag("p", tag("b", "Closed loop. "), CLOSED_LOOP_REMARK, class_="remark box")
            if run.load.loop == "closed"
            else None,
            tag("div", *charts, class_="charts") if any(charts) else None,
            tag(
                "div",
                _latency_table(run),
                _stream_table(run) if run.first or run.between else None,
                _errors_table(run) if run.errors else None,
                class_="tables",
            ),
            tag("h3", "How it was measured"),
            _generator_facts(run),
            *_server(run.server),
        )
    )


def _cards(run: Run, slo: Slo | None) -> Markup:
    """The figures that most people came for."""
    interval = figures.interval(run.throughput.low, run.throughput.high, " to ")
    cards = [("throughput", f"{figures.number(run.throughput.value, 4)}/s", f"95 %: {interval}")]
    percents = (50.0, slo.percent if slo else 99.0)
    for each in run.latency.percentiles:
        if each.percent not in percents:
            continue
        label = percentile_text(each.percent)
        if each.is_supported:
            spread = figures.interval(each.low_ms, each.high_ms, " to ")
            cards.append((label, f"{figures.number(each.value_ms)} ms", f"95 %: {spread}"))
        else:
            cards.append((label, "n too small", too_small(each, run.latency).partition(": ")[2]))
    if run.goodput is not None and slo is not None:
        cards.append(("goodput", f"{figures.number(run.goodput, 4)}/s", f"within {figures.plain(slo.limit_ms)} ms"))
    failed = figures.percent(run.failed / run.offered if run.offered else 0.0)
    shed = f", {figures.count(run.shed)} shed" if run.shed else ""
    cards.append(("failed", failed, f"{figures.count(run.failed)} of {figures.count(run.offered)}{shed}"))
    return tag(
        "div",
        *(
            tag("div", tag("span", label, class_="quiet"), tag("strong", value), tag("span", below, class_="quiet"))
            for label, value, below in cards
        ),
        class_="cards",
    )


def _latency_table(run: Run) -> Markup | None:
    if not run.latency.count:
        return tag("p", "No request succeeded, so there are no latencies.", class_="remark box")
    rows: list[Sequence[Content]] = []
    for each in run.latency.percentiles:
        interval = figures.interval(each.low_ms, each.high_ms, " to ") if each.is_supported else ""
        remark = "" if each.is_supported else tag("span", too_small(each, run.latency), class_="grey")
        name = percentile_text(each.percent)
        rows.append((name, _told(each), interval, _told(run.service.at(each.percent)), remark))
    for label, of in (("max", "max_ms"), ("mean", "mean_ms"), ("min", "min_ms")):
        intended, sent = (figures.number(getattr(part, of), 4) for part in (run.latency, run.service))
        rows.append((label, intended, "", sent, ""))
    head = ("ms", "from intended send", "95 % interval", "from real send", "")
    caption = f"Latency of successes: {_samples(run.latency)}"
    return table(head, rows, caption=caption, is_caption_shown=True, classes=[None, "n", "n", "n"])


def _samples(latency: Latency) -> str:
    words = f"{figures.count(latency.count)} samples"
    if latency.effective_count < latency.count:
        words += f", which follow one another and are worth {figures.count(latency.effective_count)} independent ones"
    return words


def _told(each: Percentile | None) -> Content:
    return figures.ABSENT if each is None else _grey(each, figures.number(each.value_ms, 4))


def _grey(each: Percentile, words: str) -> Content:
    return words if each.is_supported else tag("span", words, class_="grey")


def _stream_table(run: Run) -> Markup:
    parts = (run.first, run.between, run.latency)
    rows = [
        (percentile_text(each.percent), *(_told(part.at(each.percent)) if part else "" for part in parts))
        for each in run.latency.percentiles
    ]
    pieces = "" if run.pieces_per_s is None else f", {figures.number(run.pieces_per_s, 4)} pieces/s"
    return table(
        ("ms", "to the first piece", "between pieces", "whole answer"),
        rows,
        caption=f"Streams{pieces}",
        is_caption_shown=True,
        classes=[None, "n", "n", "n"],
    )


def _errors_table(run: Run) -> Markup:
    rows: list[Sequence[Content]] = []
    for error in run.errors:
        share = figures.percent(error.count / run.offered if run.offered else None)
        rows.append(
            (error.name, figures.count(error.count), share, _told(error.latency.at(50)), _told(error.latency.at(99)))
        )
    return table(
        ("kind", "count", "share", "p50, ms", "p99, ms"),
        rows,
        caption="Errors, which are in no figure above",
        is_caption_shown=True,
        classes=[None, "n", "n", "n", "n"],
    )


def _generator_facts(run: Run) -> Markup:
    generator, window = run.generator, run.window
    waited = generator.runqueue_wait_share
    return facts(
        (
            "window",
            f"{window.start_s:.4g} s to {window.end_s:.4g} s; warm-up: {window.warm_up}; {run.steadiness.says} "
            f"(spread of throughput {figures.percent(run.steadiness.throughput_spread)}, of latency "
            f"{figures.percent(run.steadiness.latency_spread)}, drift {figures.change(run.steadiness.drift)})",
        ),
        (
            "requests",
            f"{figures.number(run.offered_rate, 4)}/s offered, {figures.number(run.sent_rate, 4)}/s sent, "
            f"{figures.number(run.throughput.value, 4)}/s succeeded; {figures.number(run.mean_in_flight)} in flight on "
            f"average; {figures.percent(run.repeat_share)} repeated a payload; "
            f"{figures.size(run.received_bytes_per_s)}/s received",
        ),
        (
            "generator",
            f"{figures.number(generator.cpu_us_per_request)} µs of CPU per request, "
            f"{generator.processes} process{'es' if generator.processes != 1 else ''}, "
            f"the busiest used {figures.percent(generator.cpu_share)} of a core"
            + (f" and waited for one {figures.percent(waited)} of the time" if waited is not None else ""),
        ),
        (
            "send lag",
            f"p99 {value_at(generator.send_lag, 99, 3)} ms, most {figures.number(generator.send_lag.max_ms)} ms",
        ),
        (
            "loop lag",
            f"p99 {value_at(generator.loop_lag, 99, 3)} ms, most {figures.number(generator.loop_lag.max_ms)} ms",
        ),
        (
            "connections",
            f"{figures.count(generator.connections_opened)} opened"
            + _mean(", to connect", generator.connect)
            + _mean(", TLS", generator.tls)
            + f"; {figures.percent(generator.blocked_share)} of requests had to wait for one",
        ),
        (
            "self-test",
            f"{figures.number(generator.self_test_rate)}/s against a null server" if generator.self_test_rate else None,
        ),
    )


def _mean(label: str, latency: Latency | None) -> str:
    return f"{label} {figures.number(latency.mean_ms)} ms on average" if latency and latency.count else ""


def _server(view: ServerView | None) -> Iterator[Markup]:
    if view is None:
        return
    yield tag("h3", "What the server says")
    pairs: list[tuple[str, Content]] = []
    if view.batch_size is not None:
        pairs.append(("batch size", f"{figures.number(view.batch_size)} on average"))
    if view.cache_hit_share is not None:
        pairs.append(("cache hits", figures.percent(view.cache_hit_share)))
    if view.cpu_us_per_request is not None:
        pairs.append(("CPU", f"{figures.number(view.cpu_us_per_request)} µs per request"))
    pairs += [(f"not read: {name}", why) for name, why in view.unavailable.items()]
    yield facts(*pairs)
    values = [(name, figures.number(value, 6)) for name, value in (view.statistics | view.metrics).items()]
    if values:
        shown = table(("name", "change in the window"), values, caption="Statistics and metrics", classes=[None, "n"])
        yield tag("details", tag("summary", f"{len(values)} statistics and metrics"), shown)

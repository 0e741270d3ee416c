"""One run as blocks of text."""

from collections.abc import Iterator

from guepard.bench import figures
from guepard.bench.terminal import Ink
from guepard.bench.text_blocks import LABEL_COLUMNS, Block, Columns, wrapped
from guepard.measure.figures import percentile_text
from guepard.measure.results import Latency, Load, Percentile, Run, ServerView, Slo

CLOSED_LOOP_REMARK = (
    "Each client waits for its answer before it asks again, so the load eases off when the server slows down. "
    "These percentiles are not what users wait under open traffic; --rate measures that."
)


def run_blocks(run: Run, slo: Slo | None, ink: Ink, width: int) -> Iterator[Block]:
    """Everything about one run that a person decides by."""
    room = width - LABEL_COLUMNS
    yield Block("Asked", wrapped(asked(run.load), room))
    yield Block("Window", wrapped(_window(run), room))
    yield Block("Throughput", wrapped(_throughput(run, slo), room))
    yield Block("Sent", wrapped(_sent(run), room))
    yield Block("Latency", list(_latency(run, ink, room)))
    if run.load.loop == "closed":
        yield Block(
            "",
            [ink.warning(line) for line in wrapped(f"Closed loop. {CLOSED_LOOP_REMARK}", width, " " * LABEL_COLUMNS)],
        )
    if run.first is not None or run.between is not None:
        yield Block("Stream", list(_stream(run, ink, room)))
    yield Block("Errors", list(_errors(run, ink, room)))
    yield Block("Generator", wrapped(_generator(run), room))
    if run.server is not None:
        yield Block("Server", list(_server(run.server, run.latency.mean_ms, ink, room)))


def asked(load: Load) -> str:
    """The load in words: open loop, 1,000/s poisson, for 30 s."""
    if load.loop == "closed":
        words = f"closed loop, {load.concurrency} clients"
    else:
        words = f"open loop, {load.arrivals}" + ("" if load.rate is None else f", {figures.plain(load.rate, 4)}/s")
    if load.duration_s:
        words += f", for {figures.seconds(load.duration_s)}"
    if load.requests:
        words += f", {figures.count(load.requests)} requests"
    many = "es" if load.processes != 1 else ""
    return f"{words}, timeout {figures.seconds(load.timeout_s)}, {load.processes} process{many}, seed {load.seed}"


def _window(run: Run) -> str:
    window, steadiness = run.window, run.steadiness
    return f"{window.start_s:.4g} s to {window.end_s:.4g} s; warm-up: {window.warm_up}; {steadiness.says}"


def _throughput(run: Run, slo: Slo | None) -> str:
    words = (
        f"{figures.number(run.throughput.value, 4)}/s succeeded, "
        f"95 % interval {figures.interval(run.throughput.low, run.throughput.high)}"
    )
    if run.goodput is not None:
        words += f"; goodput {figures.number(run.goodput, 4)}/s"
        words += f" within {figures.plain(slo.limit_ms)} ms" if slo else ""
    return (
        f"{words}; {figures.number(run.mean_in_flight)} in flight, {figures.size(run.received_bytes_per_s)}/s received"
    )


def _sent(run: Run) -> str:
    words = (
        f"{figures.number(run.offered_rate, 4)}/s offered, {figures.number(run.sent_rate, 4)}/s sent: "
        f"{figures.count(run.offered)} due, {figures.count(run.succeeded)} succeeded, "
        f"{figures.count(run.failed)} failed"
    )
    words += f", {figures.count(run.shed)} of them shed" if run.shed else ""
    return f"{words}; {figures.percent(run.repeat_share)} repeated a payload"


def _latency(run: Run, ink: Ink, room: int) -> Iterator[str]:
    if not run.latency.count:
        yield "no request succeeded"
        return
    columns = Columns(("ms", "from intended", "95 % interval", "from real send"), "<>>>")
    for each in run.latency.percentiles:
        other = run.service.at(each.percent)
        if each.is_supported:
            cells = (figures.number(each.value_ms, 4), figures.interval(each.low_ms, each.high_ms))
            columns.add((_name(each), *cells, figures.number(other.value_ms if other else None, 4)))
        else:
            columns.add((_name(each), _told(each), too_small(each, run.latency)), ink.faint)
    columns.add(("max", figures.number(run.latency.max_ms, 4), "", figures.number(run.service.max_ms, 4)))
    columns.add(("mean", figures.number(run.latency.mean_ms, 4), "", figures.number(run.service.mean_ms, 4)))
    yield from columns.lines(ink, room)
    yield _samples(run.latency)


def value_at(latency: Latency, percent: float, digits: int = 4) -> str:
    """A percentile of it in milliseconds, however few samples there are."""
    each = latency.at(percent)
    return figures.number(each.value_ms if each else None, digits)


def _name(each: Percentile) -> str:
    return percentile_text(each.percent)


def too_small(each: Percentile, latency: Latency) -> str:
    """Why a percentile is grey."""
    return f"n too small: needs {figures.count(each.needed)}, has {figures.count(latency.count)}"


def _samples(latency: Latency) -> str:
    words = f"{figures.count(latency.count)} successes"
    if latency.effective_count < latency.count:
        words += f", worth {figures.count(latency.effective_count)} independent samples"
    return words


def _stream(run: Run, ink: Ink, room: int) -> Iterator[str]:
    columns = Columns(("ms", "first piece", "95 % interval", "between", "95 % interval"), "<>>>>")
    for total in run.latency.percentiles:
        cells: list[str] = []
        for part in (run.first, run.between):
            each = part.at(total.percent) if part else None
            is_told = each is not None and each.is_supported
            cells += [_told(each), figures.interval(each.low_ms, each.high_ms) if each and is_told else ""]
        columns.add((_name(total), *cells))
    yield from columns.lines(ink, room)
    if run.pieces_per_s is not None:
        yield f"{figures.number(run.pieces_per_s, 4)} pieces/s; for figures in parentheses n is too small"


def _told(each: Percentile | None) -> str:
    """The value, in parentheses where the sample is too small for it."""
    if each is None:
        return figures.ABSENT
    value = figures.number(each.value_ms, 4)
    return value if each.is_supported else f"({value})"


def _errors(run: Run, ink: Ink, room: int) -> Iterator[str]:
    if not run.errors:
        yield "none"
        return
    columns = Columns(("kind, not in the figures above", "count", "share", "p50 ms", "p99 ms"), "<>>>>")
    for error in run.errors:
        share = figures.percent(error.count / run.offered if run.offered else None)
        latencies = (_told(error.latency.at(percent)) for percent in (50, 99))
        columns.add((figures.one_line(error.name, 28), figures.count(error.count), share, *latencies), ink.bad)
    yield from columns.lines(ink, room)


def _generator(run: Run) -> str:
    generator = run.generator
    words = [
        f"{figures.number(generator.cpu_us_per_request)} us CPU/request",
        f"busiest process {figures.percent(generator.cpu_share)} of a core",
        f"send lag p99 {value_at(generator.send_lag, 99, 3)} ms",
        f"loop lag p99 {value_at(generator.loop_lag, 99, 3)} ms",
        f"{figures.count(generator.connections_opened)} connections opened",
    ]
    if generator.runqueue_wait_share is not None:
        words.append(f"waited for a CPU {figures.percent(generator.runqueue_wait_share)} of the time")
    if generator.blocked_share:
        words.append(f"{figures.percent(generator.blocked_share)} of requests waited for a connection")
    if generator.self_test_rate is not None:
        words.append(f"reached {figures.number(generator.self_test_rate)}/s against a null server")
    return ", ".join(words)


def _server(view: ServerView, mean_ms: float, ink: Ink, room: int) -> Iterator[str]:
    if view.phases:
        columns = Columns(("mean ms", "", "share", "read from"), "<>>>")
        for phase in view.phases:
            share = figures.percent(phase.mean_ms / mean_ms if mean_ms else None)
            columns.add((figures.one_line(phase.name, 28), figures.number(phase.mean_ms), share, phase.source))
        if view.unexplained_ms is not None:
            share = figures.percent(view.unexplained_ms / mean_ms if mean_ms else None)
            columns.add(("unexplained", figures.number(view.unexplained_ms), share, ""), ink.warning)
        yield from columns.lines(ink, room)
    facts = []
    if view.batch_size is not None:
        facts.append(f"batches of {figures.number(view.batch_size)} on average")
    if view.cache_hit_share is not None:
        facts.append(f"cache hits {figures.percent(view.cache_hit_share)}")
    if view.cpu_us_per_request is not None:
        facts.append(f"{figures.number(view.cpu_us_per_request)} us CPU/request")
    if facts:
        yield from wrapped(", ".join(facts), room)
    if view.unavailable:
        missing = "; ".join(f"{name}: {why}" for name, why in view.unavailable.items())
        yield from wrapped(f"not read: {missing}", room)

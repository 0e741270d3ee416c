"""What is seen while a measurement runs."""

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from guepard.bench.live_frame import Glyphs, sparkline
from guepard.bench.live_view import LiveView
from guepard.bench.progress import Progress
from tests.services.terminals import Screen, Terminal

COLOURLESS = {"TERM": "xterm", "NO_COLOR": "1"}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def progress_at(second: float, **changes: object) -> Progress:
    fields: dict[str, object] = {
        "phase": "measuring",
        "elapsed_s": second,
        "total_s": 60.0,
        "offered_rate": 1000.0,
        "achieved_rate": 998.2,
        "in_flight": 14,
        "p50_ms": 12.0,
        "p99_ms": 40 + 20 * math.sin(second),
        "errors": {"timed out": 3, "HTTP 429": int(second), "HTTP 500": 0},
        "send_lag_p99_ms": 0.21,
    }
    return Progress(**(fields | changes))  # type: ignore[arg-type]


@contextmanager
def terminal_view(columns: int, rows: int = 24) -> Iterator[tuple[LiveView, Clock, Terminal]]:
    terminal, clock = Terminal(columns=columns, rows=rows), Clock()
    try:
        yield LiveView(terminal.stream, environment=COLOURLESS, clock=clock), clock, terminal
    finally:
        terminal.output()


def last_frame(output: str, columns: int) -> Screen:
    """The screen as it was before the view went away."""
    screen = Screen(columns)
    screen.write(output[: output.rindex("\r")] if "\x1b[?25h" in output else output)
    return screen


def test_a_terminal_shows_one_frame_in_place() -> None:
    with terminal_view(80) as (view, clock, terminal), view:
        for second in range(40):
            view.show(progress_at(second))
            clock.now += 1
        output = terminal.output()
    screen = last_frame(output, 80)
    assert [line[:40] for line in screen.lines[:5]] == [
        "measuring  ██████████████████████████░░░",
        "rate        998/s of 1,000/s asked",
        "latency     p50 12.0 ms  p99 59.3 ms",
        "in flight   14                    send l",
        "errors      HTTP 429 39, timed out 3",
    ]
    assert screen.lines[0].endswith("39 of 60 s")
    assert screen.lines[5].startswith("p99 by time ")
    assert len(screen.lines) == 6


@pytest.mark.parametrize("columns", [8, 20, 39, 40, 61, 200])
def test_no_line_leaves_the_terminal_however_narrow(columns: int) -> None:
    with terminal_view(columns) as (view, clock, terminal), view:
        for second in range(5):
            step = "step 3 of about 8: trying 1,200/s; 模型 holds 1,000/s, fails 1,500/s"
            view.show(progress_at(second, step=step, errors={"ошибка 模型模型模型 \x1b[5m": 2}))
            clock.now += 1
        output = terminal.output()
    screen = last_frame(output, columns + 2 if columns < 12 else columns)
    assert not screen.is_overrun
    assert len(screen.lines) <= 9


def test_a_frame_is_no_higher_than_the_terminal() -> None:
    with terminal_view(80, rows=3) as (view, _, terminal), view:
        view.show(progress_at(3))
        output = terminal.output()
    assert len(last_frame(output, 80).lines) == 2


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ValueError])
def test_the_terminal_is_left_as_it_was_found(error: type[BaseException] | None) -> None:
    screen = Screen(80)
    with terminal_view(80) as (view, _, terminal):
        try:
            with view:
                view.show(progress_at(1))
                if error is not None:
                    raise error
        except (KeyboardInterrupt, ValueError):
            pass
        screen.write(terminal.output())
    assert screen.modes == {"25": True, "7": True}
    assert screen.lines == []


def test_it_draws_at_most_four_times_a_second_but_never_misses_a_new_step() -> None:
    with terminal_view(80) as (view, clock, terminal), view:
        for tick in range(100):
            view.show(progress_at(tick / 100))
            clock.now += 0.01
        output = terminal.output()
    assert output.count("measuring") == 4
    with terminal_view(80) as (view, _, terminal), view:
        for name in ("warming up", "measuring", "draining"):
            view.show(progress_at(1, phase=name))
        output = terminal.output()
    assert [output.count(name) for name in ("warming up", "measuring", "draining")] == [1, 1, 1]


def test_a_note_stays_above_the_frame() -> None:
    with terminal_view(80) as (view, clock, terminal), view:
        view.show(progress_at(1))
        view.note("800/s keeps it: p99 is 31 ms")
        view.show(progress_at(2))
        clock.now += 1
        output = terminal.output()
    lines = last_frame(output, 80).lines
    assert lines[0] == "800/s keeps it: p99 is 31 ms"
    assert lines[1].startswith("measuring")


def test_elsewhere_there_is_a_plain_line_every_few_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    with LiveView(stream, environment=COLOURLESS, clock=clock) as view:
        for second in range(10):
            view.show(progress_at(second))
            clock.now += 1
        view.note("done")
    lines = stream.getvalue().splitlines()
    assert lines[1] == (
        "measuring 3 of 60 s  998/s of 1,000/s asked  p50 12.0 ms, p99 42.8 ms  14 in flight  send lag p99 0.210 ms  "
        "errors: timed out 3, HTTP 429 3"
    )
    assert [line[:20] for line in lines] == [
        "measuring 0 of 60 s ", "measuring 3 of 60 s ", "measuring 6 of 60 s ", "measuring 9 of 60 s ", "done",
    ]  # fmt: skip


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {}])
def test_a_terminal_without_a_cursor_gets_plain_lines(environment: dict[str, str]) -> None:
    terminal = Terminal()
    with LiveView(terminal.stream, environment=environment) as view:
        view.show(progress_at(1))
    assert terminal.output().startswith("measuring 1 of 60 s  998/s")


def test_a_terminal_without_unicode_gets_other_bars() -> None:
    terminal = Terminal(encoding="latin-1")
    with LiveView(terminal.stream, environment=COLOURLESS) as view:
        view.show(progress_at(30))
    output = terminal.output()
    assert "measuring  ####################--------------------  30 of 60 s" in output
    assert output.isascii()


def test_the_quiet_view_writes_only_notes() -> None:
    terminal = Terminal()
    with LiveView(terminal.stream, environment=COLOURLESS, is_quiet=True) as view:
        view.show(progress_at(1))
        view.note("serving the model")
    assert terminal.output().strip() == "serving the model"


def test_a_watcher_who_left_does_not_end_the_measurement() -> None:
    stream = io.StringIO()
    stream.close()
    with LiveView(stream, environment=COLOURLESS) as view:
        view.show(progress_at(1))
        view.note("still measuring")


def test_what_is_not_known_is_not_shown() -> None:
    stream = io.StringIO()
    with LiveView(stream, environment={}) as view:
        view.show(Progress(phase="self-test", elapsed_s=0.4))
    assert stream.getvalue() == "self-test 0 s  0 in flight\n"


def test_a_sparkline_goes_from_the_smallest_to_the_largest() -> None:
    glyphs = Glyphs.ascii()
    assert sparkline([1, 8, None, 4], 10, glyphs) == "_# = 1.0-8.0 ms"
    assert sparkline([1, 8], 10, glyphs) == "_# 1.0-8.0 ms"
    assert sparkline([5, 5], 10, glyphs) == "__ 5.0-5.0 ms"
    assert sparkline([3], 10, glyphs) == ""
    assert sparkline([1, 2, 3], 0, glyphs) == ""
    assert sparkline(list(range(100)), 4, Glyphs.unicode()).startswith("▁▃▆█ ")

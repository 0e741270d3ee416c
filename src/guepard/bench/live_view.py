"""What is seen while a measurement runs: a few lines redrawn in place on a terminal, plain lines elsewhere.

Both go to stderr, so that stdout stays what the command answers. Drawing never wraps a line, since a wrapped line
could not be redrawn, and leaves the terminal as it found it, however the measurement ends.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TextIO

from guepard.bench import figures
from guepard.bench.live_frame import Glyphs, frame, plain_line
from guepard.bench.progress import Progress as Progress
from guepard.bench.terminal import Ink, can_redraw, speaks_unicode, terminal_size, wants_colour, write_text

_FRAME_S = 0.25
_PLAIN_S = 3.0
_POINTS = 240

_BEGIN = "\x1b[?25l\x1b[?7l"
"""Hides the cursor and keeps long lines from wrapping."""
_END = "\x1b[?7h\x1b[?25h"


class LiveView:
    """A context manager: `show` may be called as often as there is news, it draws at most four times a second.

    With `is_quiet` nothing is written but what `note` is given.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
        is_quiet: bool = False,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_quiet = is_quiet
        self._is_redrawn = can_redraw(self._stream, environment) and not is_quiet
        self._ink = Ink(wants_colour(self._stream, environment))
        self._glyphs = Glyphs.unicode() if speaks_unicode(self._stream) else Glyphs.ascii()
        self._clock = clock
        self._drawn = 0
        self._due = float("-inf")
        self._place = ("", "")
        self._points: deque[float | None] = deque(maxlen=_POINTS)
        self._second = -1

    def __enter__(self) -> Self:
        if self._is_redrawn:
            self._write(_BEGIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_redrawn:
            self._write(self._erasure() + _END)
            self._drawn = 0

    def show(self, progress: Progress) -> None:
        """Draw it, if the last drawing is long enough ago or another step or phase has begun."""
        self._remember(progress)
        place = (progress.phase, progress.step)
        now = self._clock()
        if self._is_quiet or (now < self._due and place == self._place):
            return
        self._place = place
        self._due = now + (_FRAME_S if self._is_redrawn else _PLAIN_S)
        if not self._is_redrawn:
            self._write(plain_line(progress) + "\n")
            return
        columns, rows = terminal_size(self._stream)
        lines = frame(progress, list(self._points), columns, rows - 1, self._ink, self._glyphs)
        self._write(self._erasure() + "\r\n".join(lines))
        self._drawn = len(lines)

    def note(self, text: str) -> None:
        """A line that stays: above what is redrawn, or among the plain lines."""
        self._write(self._erasure() + figures.one_line(text) + ("\r\n" if self._is_redrawn else "\n"))
        self._drawn = 0
        self._due = float("-inf")

    def _remember(self, progress: Progress) -> None:
        """One point of the sparkline for each second."""
        second = int(progress.elapsed_s)
        if second < self._second:
            self._points.clear()
        if second != self._second:
            self._points.append(progress.p99_ms)
        self._second = second

    def _erasure(self) -> str:
        """Takes the cursor to where the last frame began, and clears from there on."""
        if not self._drawn:
            return ""
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        return f"\r{up}\x1b[J"

    def _write(self, text: str) -> None:
        try:
            write_text(self._stream, text)
        except (OSError, ValueError):
            # Whoever watched has gone. The measurement goes on.
            self._is_quiet, self._is_redrawn = True, False

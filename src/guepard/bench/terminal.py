"""What a terminal can show: colour or none, how many columns, how wide a character is."""

import os
import shutil
import unicodedata
from collections.abc import Mapping
from typing import TextIO


class Ink:
    """Colours, or none of them."""

    def __init__(self, is_coloured: bool) -> None:
        self._is_coloured = is_coloured

    def good(self, text: str) -> str:
        return self._in("1;32", text)

    def bad(self, text: str) -> str:
        return self._in("1;31", text)

    def warning(self, text: str) -> str:
        return self._in("33", text)

    def faint(self, text: str) -> str:
        return self._in("2", text)

    def strong(self, text: str) -> str:
        return self._in("1", text)

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._is_coloured and text else text


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False


def can_redraw(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Is there a cursor that can be moved?"""
    return is_terminal(stream) and environment.get("TERM", "dumb") not in ("dumb", "")


def wants_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Colour goes to terminals alone, and not to who has set NO_COLOR. Source: no-color.org."""
    return can_redraw(stream, environment) and not environment.get("NO_COLOR")


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines of the terminal behind `stream`; 80 and 24 where there is none."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        size = shutil.get_terminal_size()
    return size.columns or 80, size.lines or 24


def speaks_unicode(stream: TextIO) -> bool:
    try:
        "▁█─…".encode(stream.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True


def shown_width(text: str) -> int:
    """Columns that plain text takes. Source: Unicode Standard Annex 11; combining marks take none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def clipped(text: str, columns: int) -> str:
    """As much of plain `text` as fits."""
    if shown_width(text) <= columns:
        return text
    width = end = 0
    for character in text:
        width += shown_width(character)
        if width > columns:
            break
        end += 1
    return text[:end]


def write_text(stream: TextIO, text: str) -> None:
    """Write and flush; what the stream's encoding lacks is written as an escape."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()

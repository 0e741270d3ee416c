"""Long lists of numbers in a JSON body, found without parsing it.

Such a list is a stretch that holds no quote and no brace. The rest of the body, with a short list in place of each, is
parsed as any other: all checks of fields stay in one place. Whoever does so has to find every one of those short lists
where a tensor's data belongs, each once and in order; else the body is not what it seemed, and is read as a whole.
"""

import re
from typing import NamedTuple

import msgspec

LONG = 16_384
"""The least length of a stretch, in bytes."""

_WINDOW = 131_072
_STAND_IN = b"[-7e-307,%d]"  # what no other list in the rest looks like: that is looked for
_STAND_IN_START = b"-7e-307"
_MARKS = (b'"', b"{", b"}")
_OPENING = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*(?=\[)")


class LargeArrays(NamedTuple):
    """`rest` is the body without them, `arrays` are their texts, views on the body."""

    rest: bytes
    arrays: tuple[memoryview, ...]

    def place_of(self, value: object) -> int:
        """Which of the arrays the raw JSON `value` stands for; -1 for none."""
        if isinstance(value, msgspec.Raw):
            text = bytes(value)
            if text.startswith(b"[" + _STAND_IN_START):
                return int(text[len(_STAND_IN_START) + 2 : -1])
        return -1


def find_large_arrays(body: bytes | bytearray | memoryview) -> LargeArrays | None:
    """What is long in `body`; None where nothing is, or what stands around it cannot be told apart from it.

    Cost: 0.1 ms per MB.
    """
    view = memoryview(body)
    parts: list[bytes | memoryview] = []
    arrays: list[memoryview] = []
    start = kept = 0
    size = len(view)
    while size - start >= LONG:
        last = max(bytes(view[start : start + LONG]).rfind(mark) for mark in _MARKS)
        if last >= 0:
            start += last + 1
            continue
        end = _next_mark(view, start + LONG)
        opening = _OPENING.match(view, start, end)
        closing = _last_bracket(view, start, end)
        if opening is not None and closing > opening.end():
            parts += (view[kept : opening.end()], _STAND_IN % len(arrays))
            arrays.append(view[opening.end() : closing])
            kept = closing
        start = end + 1
    if not arrays:
        return None
    parts.append(view[kept:])
    if any(_STAND_IN_START in bytes(part) for part in parts[::2]):
        return None
    return LargeArrays(b"".join(parts), tuple(arrays))


def _next_mark(view: memoryview, at: int) -> int:
    """Where the stretch that has come to `at` ends."""
    while at < len(view):
        window = bytes(view[at : at + _WINDOW])
        found = [place for place in map(window.find, _MARKS) if place >= 0]
        if found:
            return at + min(found)
        at += _WINDOW
    return len(view)


def _last_bracket(view: memoryview, start: int, end: int) -> int:
    """Where the last list within closes; -1 for nowhere near its end."""
    near = max(start, end - 1_024)
    found = bytes(view[near:end]).rfind(b"]")
    return near + found + 1 if found >= 0 else -1

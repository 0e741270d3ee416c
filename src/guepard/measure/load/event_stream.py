"""Pieces of an event stream (server-sent events) as they come, however they are cut into reads.

Source: the HTML standard's event stream format; of it, what a stream of answers uses: data lines, and lines that end in
LF, CR LF or CR.
"""

import re

from guepard.measure.load.plan import ReplyRule

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventStream:
    """One answer. `feed` returns how many pieces came; `is_complete` and `is_broken` say how it stands."""

    def __init__(self, rule: "StreamRule") -> None:
        self._rule = rule
        self._rest = b""
        self._data: list[bytes] = []
        self.is_broken = False
        self.has_last_event = not rule.last_event

    def feed(self, chunk: bytes) -> int:
        """Cost: one scan of the chunk; a line that is not ended yet is kept."""
        lines = _LINE_END.split(self._rest + chunk)
        self._rest = lines.pop()
        if chunk.endswith(b"\r"):
            # Perhaps half of a CR LF: what follows decides.
            self._rest = (lines.pop() if lines else b"") + b"\r"
        pieces = 0
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                pieces += self._event(b"\n".join(self._data))
                self._data.clear()
        return pieces

    @property
    def is_complete(self) -> bool:
        return self.has_last_event and not self.is_broken

    def _event(self, data: bytes) -> bool:
        rule = self._rule
        if rule.last_event and data == rule.last_event:
            self.has_last_event = True
            return False
        if rule.error_event is not None and rule.error_event.search(data):
            self.is_broken = True
            return False
        return rule.piece is None or rule.piece.search(data) is not None


class StreamRule:
    """What a ReplyRule says of streams, made ready."""

    def __init__(self, rule: ReplyRule) -> None:
        self.last_event = rule.last_event.encode()
        self.piece = re.compile(rule.piece.encode()) if rule.piece else None
        self.error_event = re.compile(rule.error_event.encode()) if rule.error_event else None

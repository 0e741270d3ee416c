"""A terminal to write to: what a person would see on it, as text."""

import fcntl
import os
import pty
import re
import struct
import termios
import threading

_PART = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Terminal:
    """A pseudo-terminal with a reader, so that writers never wait. `output` ends it."""

    def __init__(self, *, columns: int = 80, rows: int = 24, encoding: str = "utf-8") -> None:
        self._reading, writing = pty.openpty()
        attributes = termios.tcgetattr(writing)
        attributes[1] &= ~termios.OPOST  # what is written arrives as it is
        termios.tcsetattr(writing, termios.TCSANOW, attributes)
        fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.stream = os.fdopen(writing, "w", encoding=encoding, newline="")
        self._parts: list[bytes] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            while part := os.read(self._reading, 65536):
                self._parts.append(part)
        except OSError:
            pass  # the writer has closed it

    def output(self) -> str:
        """Everything that was written."""
        if not self.stream.closed:
            self.stream.close()
        self._thread.join(10)
        assert not self._thread.is_alive()
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1
        return b"".join(self._parts).decode()


class Screen:
    """Shows what was written: letters, line ends, cursor up, erasure, and the modes that are on."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._row = self._column = 0
        self._rows: list[list[str]] = [[]]
        self.modes = {"25": True, "7": True}
        """25: the cursor is visible. 7: long lines wrap."""
        self.is_overrun = False
        """Was anything written beyond the last column?"""

    def write(self, text: str) -> None:
        for private, number, letter, character in _PART.findall(text):
            if character:
                self._put(character)
            elif private:
                self.modes[number] = letter == "h"
            elif letter == "A":
                self._row -= int(number or 1)
                assert self._row >= 0, "the cursor left the screen"
            elif letter == "J":
                self._rows = self._rows[: self._row + 1]
                self._rows[-1] = self._rows[-1][: self._column]
            else:
                assert letter == "m", f"unknown command {letter}"

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._row += 1
            while len(self._rows) <= self._row:
                self._rows.append([])
        else:
            self.is_overrun |= self._column >= self._columns
            row = self._rows[self._row]
            row += " " * (self._column + 1 - len(row))
            row[self._column] = character
            self._column += 1

    @property
    def lines(self) -> list[str]:
        shown = ["".join(row).rstrip() for row in self._rows]
        while shown and not shown[-1]:
            shown.pop()
        return shown

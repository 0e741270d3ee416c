"""A pasted command line as the words that a shell would make of it, without running a shell.

Quotes, escapes, `$'…'` (browsers copy it) and line continuations mean what they mean to bash; variables, substitutions
and anything behind the command are refused, since nothing here can give them a value.
Source: POSIX, "Shell Command Language", 2.2 Quoting; Bash manual, "ANSI-C Quoting".
"""

from guepard.core.errors import ConfigurationError

_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_HEX = {"x": 2, "u": 4, "U": 8}
_OPERATORS = "|&;<>()"


def shell_words(line: str) -> list[str]:
    """Raises: ConfigurationError with what cannot be read and what to write."""
    return _Reader(line.replace("\r\n", "\n").strip()).words()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._word: list[str] = []
        self._inside = False
        """A word has begun, though it may still be empty: '' is one."""

    def words(self) -> list[str]:
        found = []
        while self._at < len(self._text):
            character = self._take()
            if character in " \t\n":
                if self._inside:
                    found.append(self._end())
            elif character == "\\":
                self._escape()
            elif character == "'":
                self._add(self._until("'"))
            elif character == '"':
                self._double()
            elif character == "$" and self._peek() == "'":
                self._take()
                self._ansi()
            elif character == "$" and self._peek() == '"':
                continue  # a translated text: the quotes follow
            elif character in "$`":
                self._expansion(character)
            elif character in _OPERATORS:
                rest = self._text[self._at - 1 :][:40]
                raise ConfigurationError(
                    f"--curl: {rest!r} is for a shell; give the curl command alone, quotes around URLs"
                )
            elif character == "#" and not self._inside:
                self._until_line_end()
            else:
                self._add(character)
        if self._inside:
            found.append(self._end())
        return found

    def _take(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _add(self, text: str) -> None:
        self._word.append(text)
        self._inside = True

    def _end(self) -> str:
        word = "".join(self._word)
        self._word, self._inside = [], False
        return word

    def _escape(self) -> None:
        if self._at == len(self._text):
            return  # the continuation of a line that did not come along
        character = self._take()
        if character != "\n":
            self._add(character)

    def _until(self, quote: str) -> str:
        end = self._text.find(quote, self._at)
        if end < 0:
            raise self._unclosed(quote)
        text = self._text[self._at : end]
        self._at = end + 1
        return text

    def _until_line_end(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _double(self) -> None:
        self._add("")
        while self._at < len(self._text):
            character = self._take()
            if character == '"':
                return
            if character == "\\" and self._peek() and self._peek() in '$`"\\\n':
                following = self._take()
                self._add("" if following == "\n" else following)
            elif character in "$`":
                self._expansion(character)
            else:
                self._add(character)
        raise self._unclosed('"')

    def _ansi(self) -> None:
        self._add("")
        while self._at < len(self._text):
            character = self._take()
            if character == "'":
                return
            self._add(self._ansi_escape() if character == "\\" and self._peek() else character)
        raise self._unclosed("'")

    def _ansi_escape(self) -> str:
        character = self._take()
        if character in _ANSI:
            return _ANSI[character]
        if character in _HEX:
            return self._number("0123456789abcdefABCDEF", _HEX[character], 16) or f"\\{character}"
        if character in "01234567":
            self._at -= 1
            return self._number("01234567", 3, 8)
        return character

    def _number(self, digits: str, most: int, base: int) -> str:
        start = self._at
        while self._at - start < most and self._peek() and self._peek() in digits:
            self._at += 1
        if self._at == start:
            return ""
        try:
            return chr(int(self._text[start : self._at], base))
        except (ValueError, OverflowError):
            raise ConfigurationError(f"--curl: \\U{self._text[start : self._at]} is no character") from None

    def _expansion(self, character: str) -> None:
        """A `$` that stands for itself, or one that a shell would replace."""
        following = self._peek()
        if character == "`" or following.isalnum() or (following and following in "_{(@*?!#$-"):
            shown = self._text[self._at - 1 :][:30]
            raise ConfigurationError(f"--curl: {shown!r} needs a shell; write its value in its place")
        self._add(character)

    def _unclosed(self, quote: str) -> ConfigurationError:
        return ConfigurationError(f"--curl: a {quote} is opened and not closed; paste the whole command")

"""A pasted curl command as one HTTP request.

What only concerns curl's own output is passed over; what changes the request and cannot be done here is refused by
name, lest something else than the user's request is measured. Source: curl(1).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from guepard.bench.targets import curl_options as options
from guepard.bench.targets.header_lines import Headers, basic_authorization, overlaid, read_header
from guepard.bench.targets.sample_files import read_file
from guepard.bench.targets.shell_words import shell_words
from guepard.core.errors import ConfigurationError

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"


class CurlRequest(NamedTuple):
    """`url` is as it was written, empty if there was none; `notes` say what was passed over."""

    method: str
    url: str
    headers: Headers
    body: bytes
    insecure: bool
    ca_file: str | None
    notes: tuple[str, ...]


def read_curl(line: str) -> CurlRequest:
    """The request of the command `line`, which begins with `curl`.

    Files that it names with @ are read from the working directory. Raises: ConfigurationError that names the option.
    """
    words = shell_words(line)
    if not words or Path(words[0]).name.removesuffix(".exe") != "curl":
        raise ConfigurationError(f"--curl {line[:40]!r}: expected a command that begins with curl")
    command = _Command()
    rest = iter(words[1:])
    plain = False
    for word in rest:
        if plain or not word.startswith("-") or word == "-":
            command.take("url", word)
        elif word == "--":
            plain = True
        elif word.startswith("--"):
            name = word[2:]
            command.take(name, _value(word, rest) if options.takes_value(name) else "")
        else:
            _take_letters(word, command, rest)
    return command.request()


def _take_letters(word: str, command: "_Command", rest: Iterator[str]) -> None:
    """Letters behind one dash; what follows the first that takes a value is that value."""
    for index, letter in enumerate(word[1:], 1):
        name = options.SHORT.get(letter)
        if name is None:
            raise ConfigurationError(f"--curl: the option -{letter} is unknown here; leave it out")
        if options.takes_value(name):
            command.take(name, word[index + 1 :] or _value(f"-{letter}", rest))
            return
        command.take(name, "")


def _value(word: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise ConfigurationError(f"--curl: {word} has no value; paste the whole command")
    return value


class _Command:
    """What the options have said so far."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._flags: set[str] = set()
        self._headers: list[tuple[str, str]] = []
        self._data: bytes | None = None
        self._has_json = False
        self._notes: dict[str, None] = {}

    def take(self, name: str, value: str) -> None:
        """One option. Raises: ConfigurationError."""
        if name in options.REFUSED:
            raise ConfigurationError(f"--curl: --{name} cannot be measured; {options.REFUSED[name]}")
        if name in options.DATA:
            self._add_data(name, value)
        elif name == "header":
            self._add_header(value)
        elif name in options.VALUES:
            if name == "url" and "url" in self._values:
                raise ConfigurationError(
                    f"--curl: {self._values['url']!r} and {value!r}; one URL is measured at a time"
                )
            self._values[name] = value
        elif name in options.FLAGS:
            self._flags.add(name)
        elif note := options.NOTED.get(name) or options.NOTED_VALUES.get(name):
            self._notes[f"--{name} is passed over: {note}"] = None
        elif name not in options.SILENT and name not in options.SILENT_VALUES:
            hint = ""
            if name.partition("=")[0] != name:
                hint = ", write its value as a word of its own"
            raise ConfigurationError(f"--curl: the option --{name[:40]} is unknown here{hint}; leave it out")

    def request(self) -> CurlRequest:
        url, data = self._values.get("url", ""), self._data
        own: list[tuple[str, str]] = []
        if "get" in self._flags and data is not None:
            url += ("&" if "?" in url else "?") + quote(data, safe="%&=+:/?@!$'()*,;~-._")
            data = None
        if data is not None:
            own.append(("Content-Type", _JSON if self._has_json else _FORM))
        if self._has_json:
            own.append(("Accept", _JSON))
        for option, header in (("user-agent", "User-Agent"), ("referer", "Referer"), ("cookie", "Cookie")):
            if option in self._values:
                own.append(read_header(f"{header}: {self._values[option]}", f"--curl --{option}"))
        if "cookie" in self._values and "=" not in self._values["cookie"]:
            raise ConfigurationError("--curl: --cookie names a file; write the cookies, NAME=VALUE")
        if "oauth2-bearer" in self._values:
            own.append(("Authorization", f"Bearer {self._values['oauth2-bearer']}"))
        if "user" in self._values:
            user, colon, password = self._values["user"].partition(":")
            if not colon:
                raise ConfigurationError("--curl: --user without a password asks for it; write NAME:PASSWORD")
            own.append(basic_authorization(user, password))
        default = "HEAD" if "head" in self._flags else "GET" if data is None else "POST"
        return CurlRequest(
            method=self._values.get("request", default),
            url=url,
            headers=overlaid(own, self._headers),
            body=data or b"",
            insecure="insecure" in self._flags,
            ca_file=self._values.get("cacert"),
            notes=tuple(self._notes),
        )

    def _add_header(self, line: str) -> None:
        if line.startswith("@"):
            raise ConfigurationError(f"--curl: -H {line[:40]!r} names a file; write its headers")
        name = line.partition(":")[0].strip().lower()
        if name == "accept-encoding":  # as browsers copy it
            self._notes["Accept-Encoding is passed over: answers are asked for without compression"] = None
        elif name in ("connection", "content-length", "expect", "te"):  # the framing's own, as browsers copy them
            self._notes[f"{name} is passed over: it is set for every request"] = None
        elif line.endswith(";") and ":" not in line:
            raise ConfigurationError(f"--curl: -H {line[:40]!r} sends an empty header, which is not done; leave it out")
        else:
            self._headers.append(read_header(line, "--curl -H"))

    def _add_data(self, name: str, value: str) -> None:
        """Pieces are joined with &, those of --json without anything."""
        self._has_json |= name == "json"
        piece = _urlencoded(value) if name == "data-urlencode" else _content(name, value)
        joint = b"" if name == "json" else b"&"
        self._data = piece if self._data is None else self._data + joint + piece


def _content(name: str, value: str) -> bytes:
    if name == "data-raw" or not value.startswith("@"):
        return value.encode()
    data = _file(name, value[1:])
    if name in ("data", "data-ascii"):
        data = data.translate(None, b"\r\n\0")
    return data


def _urlencoded(value: str) -> bytes:
    """`content`, `=content`, `name=content`, `@file` or `name@file`."""
    place = min((at for sign in "=@" if (at := value.find(sign)) >= 0), default=-1)
    name = value[: max(place, 0)]
    data = (
        _file("data-urlencode", value[place + 1 :]) if value[place : place + 1] == "@" else value[place + 1 :].encode()
    )
    return (f"{name}=" if name else "").encode() + quote_plus(data).encode()


def _file(option: str, name: str) -> bytes:
    if name == "-":
        raise ConfigurationError(f"--curl: --{option} @- reads standard input; name a file")
    if not Path(name).is_file():
        raise ConfigurationError(f"--curl: --{option} @{name}: no such file in {Path.cwd().name or '/'}")
    return read_file(Path(name))

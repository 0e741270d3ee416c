"""Result files: written whole, read with care, as JSON or as the HTML report that holds the same JSON."""

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from guepard.core.errors import ConfigurationError
from guepard.measure.results import FORMAT, VERSION, Document
from guepard.measure.whole_file import write_whole

_OPENING = b'<script type="application/json" id="guepard-bench-result">'
_CLOSING = b"</script>"
_LARGEST_BYTES = 512 << 20
_BLANKS = b" \t\r\n\xef\xbb\xbf"


class _Head(msgspec.Struct):
    """What every version of the format begins with."""

    format: str = ""
    version: int = 0
    guepard: str = "an unknown version"


def _plain(value: Any) -> Any:
    """A numpy scalar as Python's own. They slip into figures, and a result must not be lost to one."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a result cannot hold {type(value).__name__}")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
_HEADS = msgspec.json.Decoder(_Head)
_DOCUMENTS = msgspec.json.Decoder(Document)


def write(document: Document, path: str | os.PathLike[str]) -> None:
    """Write the result file, whole or not at all. Raises: ConfigurationError if `path` cannot be written."""
    write_whole(path, to_json(document))


def to_json(document: Document) -> bytes:
    """The result file: JSON with a field a line, so that two of them can be told apart by `diff`."""
    return msgspec.json.format(_encoded(document), indent=2) + b"\n"


def to_script(document: Document) -> bytes:
    """The same JSON as an HTML element that no browser runs and nothing in it can close."""
    text = _encoded(document)
    for character in b"<>&":
        # These occur in strings alone, where JSON may spell them as escapes.
        text = text.replace(bytes([character]), b"\\u%04x" % character)
    return _OPENING + text + _CLOSING


def read(path: str | os.PathLike[str]) -> Document:
    """The result in a file, be it JSON or an HTML report. Fields that this version lacks are ignored.

    Raises: ConfigurationError, which names the path, where there is no result that can be read.
    """
    return parse(_contents(path), os.fspath(path))


def parse(data: bytes, name: str) -> Document:
    """The result in `data`, which errors call `name`. Raises: ConfigurationError."""
    text = data.lstrip(_BLANKS)
    if text.startswith(b"<"):
        text = _embedded(text, name)
    try:
        head = _HEADS.decode(text)
    except msgspec.ValidationError:
        head = _Head()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(_torn(text, name, error)) from None
    if head.format != FORMAT:
        raise ConfigurationError(f"{name} is no result of guepard bench; name a file that --out or --report made")
    if head.version != VERSION:
        raise ConfigurationError(_other_version(head, name))
    try:
        return _DOCUMENTS.decode(text)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{name} is a damaged result: {error}; run guepard bench again") from None


def _encoded(document: Document) -> bytes:
    try:
        return _ENCODER.encode(document)
    except UnicodeEncodeError:
        # Words of a command line need not be UTF-8. What JSON cannot hold becomes a question mark.
        return _ENCODER.encode(_told(msgspec.to_builtins(document, enc_hook=_plain)))


def _told(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_told(key): _told(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_told(item) for item in value]
    return value


def _contents(path: str | os.PathLike[str]) -> bytes:
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {name}: {error.strerror or error}") from None
    if len(data) > _LARGEST_BYTES:
        raise ConfigurationError(f"{name} is larger than {_LARGEST_BYTES >> 20} MiB, which no result is")
    return data


def _embedded(text: bytes, name: str) -> bytes:
    _, opening, rest = text.partition(_OPENING)
    body, closing, _ = rest.partition(_CLOSING)
    if not opening:
        raise ConfigurationError(f"{name} is a web page without a result; name a file that --out or --report made")
    if not closing:
        raise ConfigurationError(f"{name} is torn: it ends in the middle of the result; run guepard bench again")
    return body


def _torn(text: bytes, name: str, error: Exception) -> str:
    if not text:
        return f"{name} is empty; name a file that guepard bench --out or --report made"
    if text.startswith(b"{"):
        return f"{name} is torn or damaged: {error}; run guepard bench again"
    return f"{name} is no result of guepard bench: it is not JSON; name a file that --out or --report made"


def _other_version(head: _Head, name: str) -> str:
    if head.version > VERSION:
        advice = "upgrade guepard, or run guepard bench again with this one"
    else:
        advice = "run guepard bench again"
    return (
        f"{name} was written by guepard {head.guepard[:40]} in version {head.version} of the format; "
        f"this guepard reads version {VERSION}: {advice}"
    )

"""The words of a command as a file that others read may hold them: without the secrets among them."""

import re
import shlex
from collections.abc import Iterable, Iterator

HIDDEN = "[hidden]"

_TELLING = r"[\w.-]*(?:auth|cookie|token|key|secret|passw|signature|credential|session)[\w.-]*"
_SECRET_HEADER = re.compile(rf"\s*({_TELLING})\s*:.*", re.IGNORECASE | re.DOTALL)
_USER_IN_URL = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_SECRET_IN_QUERY = re.compile(rf"(?<=[?&])({_TELLING}=)[^&#\s]+", re.IGNORECASE)
_CURL_HEADERS = ("-H", "--header", "--proxy-header")
_CURL_SECRETS = ("-u", "--user", "-U", "--proxy-user", "-b", "--cookie", "--oauth2-bearer", "--pass")


def without_secrets(words: Iterable[str]) -> tuple[str, ...]:
    """The words with credentials in headers, URLs and curl commands hidden. A body is left as it is."""
    return tuple(_hide(words, headers=("--header",), secrets=()))


def _hide(words: Iterable[str], headers: tuple[str, ...], secrets: tuple[str, ...]) -> Iterator[str]:
    before = ""
    for word in words:
        flag, equals, value = word.partition("=")
        if before in (*headers, *secrets, "--curl"):
            yield _value(before, word, headers)
        elif equals and flag in (*headers, *secrets, "--curl"):
            yield f"{flag}={_value(flag, value, headers)}"
        elif len(word) > 2 and word[:2] != "--" and word[:2] in (*headers, *secrets):
            yield word[:2] + _value(word[:2], word[2:], headers)
        else:
            yield _url(word)
        before = word


def _value(flag: str, value: str, headers: tuple[str, ...]) -> str:
    if flag == "--curl":
        return _curl(value)
    return _header(value) if flag in headers else HIDDEN


def _header(line: str) -> str:
    match = _SECRET_HEADER.fullmatch(line)
    return f"{match[1]}: {HIDDEN}" if match else line


def _url(word: str) -> str:
    return _SECRET_IN_QUERY.sub(rf"\1{HIDDEN}", _USER_IN_URL.sub(HIDDEN, word))


def _curl(line: str) -> str:
    try:
        words = shlex.split(line)
    except ValueError:
        return HIDDEN
    return shlex.join(_hide(words, _CURL_HEADERS, _CURL_SECRETS))

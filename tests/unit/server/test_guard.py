"""Who may manage; the integration tests ask the same over sockets for every route."""

import pytest

from guepard.core.errors import PermissionDenied
from guepard.server.http.guard import Guard
from guepard.server.http.request_head import RequestHead

HERE = Guard(loopback=True, hosts=frozenset({"models.example"}), anonymous=frozenset())
BEYOND = Guard(loopback=False, hosts=frozenset(), anonymous=frozenset({"observe"}))


def head(**headers: str) -> RequestHead:
    named = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return RequestHead("POST", b"/", named)


@pytest.mark.parametrize(
    "accepted",
    [
        head(host="localhost:8000"),
        head(host="LocalHost."),
        head(host="models.example"),
        head(host="[::1]:8000", origin="http://[::1]:8000"),
        head(host="127.0.0.1", origin="HTTP://127.0.0.1", sec_fetch_site="same-origin"),
        head(host="localhost", sec_fetch_site="none"),
        head(),
    ],
)
def test_accepted(accepted: RequestHead) -> None:
    HERE.check(accepted, "manage")


@pytest.mark.parametrize(
    ("refused", "named"),
    [
        (head(host="evil.example"), "server.allowed_hosts"),
        (head(host=""), "server.allowed_hosts"),
        (head(host="localhost", origin="http://evil.example"), "Origin"),
        (head(host="localhost:8000", origin="http://localhost:3000"), "Origin"),
        (head(host="localhost", origin="null"), "Origin"),
        (head(host="localhost", origin="http://[::1"), "Origin"),
        (head(origin=""), "Origin"),
        (head(origin="http://localhost"), "Origin"),
        (head(host="localhost", sec_fetch_site="cross-site"), "Sec-Fetch-Site"),
    ],
)
def test_refused(refused: RequestHead, named: str) -> None:
    with pytest.raises(PermissionDenied, match=named):
        HERE.check(refused, "manage")


def test_beyond_loopback_only_what_is_named_is_open() -> None:
    BEYOND.check(head(host="10.0.0.1"), "observe")
    with pytest.raises(PermissionDenied, match=r"'manage' under auth\.anonymous"):
        BEYOND.check(head(host="10.0.0.1"), "manage")
    with pytest.raises(PermissionDenied, match="Origin"):
        BEYOND.check(head(host="10.0.0.1", origin="http://evil.example"), "observe")

"""What a head says."""

import pytest

from guepard.core.errors import InputError
from guepard.server.http.request_head import Header, RequestHead


def head(target: str = "/", *headers: Header, method: str = "GET") -> RequestHead:
    return RequestHead(method, target.encode("latin-1"), list(headers))


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/v2/models/a", "/v2/models/a"),
        ("/v2?a=b?c", "/v2"),
        ("/v2/%6dodels", "/v2/models"),
        ("/v2/%256dodels", "/v2/%6dodels"),
        ("/v2/a%2Fb", "/v2/a%2Fb"),
        ("/v2/%2e%2e/a", "/v2/../a"),
        ("/v2/../a", "/v2/../a"),
        ("/v2/%C3%A9", "/v2/é"),
        ("/v2/%ff", "/v2/�"),
        ("/v2/%", "/v2/%"),
        ("http://host:80/v2", "/v2"),
        ("https://host/v2?a", "/v2"),
        ("http://host", "/"),
        ("*", "*"),
    ],
)
def test_paths(target: str, path: str) -> None:
    assert head(target).path == path


def test_names_of_headers_know_no_case_and_repeated_ones_are_joined() -> None:
    read = head("/", (b"Accept", b"a"), (b"ACCEPT", b"b"))
    assert read.text(b"accept") == "a, b"
    assert read.text(b"host") is None


def test_white_space_around_a_value_is_none_of_it() -> None:
    """RFC 9110 section 5.5. It is kept inside."""
    read = head("/", (b"Accept", b" \ta  b \t"), (b"Expect", b"100-continue "), (b"X-Request-Id", b"id\t"))
    assert read.text(b"accept") == "a  b"
    assert (read.expects_continue, read.request_id) == (True, b"id")


def test_two_hosts_are_refused() -> None:
    with pytest.raises(InputError, match="Host"):
        head("/", (b"Host", b"a"), (b"host", b"a"))


def test_what_the_framing_headers_say() -> None:
    read = head("/", (b"Content-Length", b"12"), (b"Expect", b"100-Continue"), method="HEAD")
    assert (read.content_length, read.is_chunked, read.expects_continue, read.is_head) == (12, False, True, True)
    read = head("/", (b"Transfer-Encoding", b"chunked"), (b"Expect", b"magic"))
    assert (read.content_length, read.is_chunked, read.expects_continue, read.is_head) == (0, True, False, False)


def test_a_long_request_id_is_cut() -> None:
    assert head("/", (b"X-Request-Id", b"a" * 1_000)).request_id == b"a" * 128


@pytest.mark.parametrize(("keep_alive", "connection"), [(True, b"keep-alive"), (False, b"close")])
def test_without_its_offer_a_head_is_the_same_request(keep_alive: bool, connection: bytes) -> None:
    headers = [
        (b"Host", b"x"),
        (b"Upgrade", b"h2c"),
        (b"Connection", b"Upgrade, HTTP2-Settings"),
        (b"HTTP2-Settings", b"AA"),
        (b"Content-Length", b"3"),
    ]
    offer = RequestHead("POST", b"/a?b", headers, keep_alive=keep_alive)
    assert offer.upgrades
    lines = offer.without_upgrade().split(b"\r\n")
    assert lines[0] == b"POST /a?b HTTP/1.1"
    assert set(lines[1:-2]) == {b"host: x", b"content-length: 3", b"connection: " + connection}
    assert lines[-2:] == [b"", b""]

"""Requests as bytes: framing that is always right, headers that cannot break it."""

import pytest

from guepard.bench.targets.header_lines import grpc_metadata, overlaid, read_header, read_headers
from guepard.bench.targets.http_request import HttpRequest
from guepard.bench.targets.target_url import TargetUrl
from guepard.core.errors import ConfigurationError
from guepard.measure.load.plan import UniqueSpot

URL = TargetUrl.read("http://h:8000/p?q=1")


def lines(request: HttpRequest) -> list[str]:
    head = request.head().decode("latin-1")
    assert head.endswith("\r\n\r\n")
    return head[:-4].split("\r\n")


def test_a_post() -> None:
    request = HttpRequest("post", URL, (("X-A", "1"), ("accept", "text/plain")), "é".encode())
    assert lines(request) == [
        "POST /p?q=1 HTTP/1.1",
        "Host: h:8000",
        "User-Agent: guepard-bench",
        "X-A: 1",
        "accept: text/plain",
        "Content-Length: 2",
    ]
    assert request.payload().data == request.head() + "é".encode()


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [("GET", b"", None), ("HEAD", b"", None), ("GET", b"x", 1), ("POST", b"", 0), ("DELETE", b"", None)],
)
def test_the_length_is_there_where_it_means_something(method: str, body: bytes, length: int | None) -> None:
    found = [line for line in lines(HttpRequest(method, URL, (), body)) if line.startswith("Content-Length")]
    assert found == ([] if length is None else [f"Content-Length: {length}"])


def test_credentials_of_the_url_are_sent_unless_a_header_says_others() -> None:
    url = TargetUrl.read("http://me:secret@h/")
    assert "Authorization: Basic bWU6c2VjcmV0" in lines(HttpRequest("GET", url))
    told = lines(HttpRequest("GET", url, (("authorization", "Bearer t"),)))
    assert [line for line in told if line.lower().startswith("authorization")] == ["authorization: Bearer t"]


def test_the_spot_moves_behind_the_head() -> None:
    request = HttpRequest("POST", URL, (), b"0.1234567,1", UniqueSpot(offset=2, width=3, form="digits", stride=2))
    payload = request.payload()
    assert payload.spot is not None
    assert payload.data[payload.spot.offset :] == b"1234567,1"
    assert (payload.spot.width, payload.spot.stride) == (3, 2)


def test_what_identifies_a_request_knows_no_host() -> None:
    other = TargetUrl.read("http://i:9/p?q=1")
    assert HttpRequest("GET", URL).identity() == HttpRequest("GET", other).identity() == b"GET /p?q=1"
    assert HttpRequest("POST", URL, (), b"x").identity() == b"x"


@pytest.mark.parametrize("method", ["", "GE T", "GET\r\n", "CONNECT", "1"])
def test_wrong_methods(method: str) -> None:
    with pytest.raises(ConfigurationError, match="--method"):
        HttpRequest(method, URL).head()


def test_an_empty_value_takes_a_header_away() -> None:
    headers = overlaid([("Accept", "text/plain"), ("A", "1")], read_headers(["accept:", "B: 2"]))
    assert lines(HttpRequest("GET", URL, headers))[3:] == ["A: 1", "B: 2"]
    assert grpc_metadata(headers) == (("a", "1"), ("b", "2"))


def test_several_of_one_name_stay() -> None:
    assert read_headers(["X: 1", "X: 2"]) == (("X", "1"), ("X", "2"))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("no colon", "'Name: value'"),
        (": x", "no header name"),
        ("A B: x", "no header name"),
        ("A: b\r\nEvil: 1", "line break"),
        ("A\r\nEvil: 1", "no header name"),
        ("A: \x00", "control characters"),
        ("A: 日本", "Latin-1"),
        ("Content-Length: 5", "counted"),
        ("transfer-encoding: chunked", "sent whole"),
        ("Connection: close", "kept open"),
        ("Expect: 100-continue", "leave Expect out"),
        ("Host:", "must name its host"),
    ],
)
def test_headers_that_would_break_a_request(line: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        read_header(line)


def test_headers_as_metadata() -> None:
    assert grpc_metadata(read_headers(["Authorization: Bearer t", "X-A: 1"])) == (
        ("authorization", "Bearer t"),
        ("x-a", "1"),
    )
    for line in ("grpc-timeout: 1S", "Content-Type: x", "a-bin: x", "A: é"):
        with pytest.raises(ConfigurationError, match="gRPC"):
            grpc_metadata(read_headers([line]))

"""Messages that are cut, doubled, malformed or meant for another protocol.

The limits of gRPC: `test_grpc_limits.py`. Left to later parts: several workers.
"""

import pickle
from pathlib import Path

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import (
    LIVE,
    RawClient,
    answers_in,
    assert_alive,
    bounded,
    chunked,
    infer,
    message,
    tensor_body,
    values_of,
)

INFER = "/v2/models/ident/infer"
BODY = tensor_body([1.0, 2.0])
H2C = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
)


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    return serve(f"ident={write_model(models / 'ident', identity('FP32', ['n', 'm']))}")


def post(*headers: str, version: str = "1.1") -> bytes:
    """The head of an inference request with the given framing."""
    return message("POST", INFER, headers=headers, version=version)


LENGTH = f"Content-Length: {len(BODY)}"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)

AMBIGUOUS = {
    "length and chunks": post("Content-Length: 4", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "chunks and length": post("Transfer-Encoding: chunked", "Content-Length: 4") + b"0\r\n\r\n",
    "two lengths": post(LENGTH, "Content-Length: 5") + BODY,
    "one length twice": post(LENGTH, LENGTH) + BODY,
    "list of lengths": post(f"Content-Length: {len(BODY)}, {len(BODY)}") + BODY,
    **{
        f"length {text!r}": post(f"Content-Length: {text}") + BODY
        for text in ("+5", "-1", "0x5", "5 5", "1e1", "5.0", "", "5;", "٣".encode().decode("latin-1"))
    },
    "length beyond 64 bits": post("Content-Length: 18446744073709551617") + BODY,
    **{
        f"coding {text!r}": post(f"Transfer-Encoding: {text}") + CHUNKS
        for text in ("gzip, chunked", "chunked, gzip", "chunked, chunked", "gzip", "identity", "xchunked", '"chunked"')
    },
    "chunked twice": post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + CHUNKS,
    "chunks in HTTP/1.0": post("Transfer-Encoding: chunked", version="1.0") + CHUNKS,
    "space before the colon": post(f"Content-Length : {len(BODY)}") + BODY,
    "control character in a value": post(LENGTH, "X-A: b\x00c") + BODY,
    "name of a control character": post(LENGTH, "X\x01: b") + BODY,
    "folded header": post("X-A: b\r\n c", LENGTH) + BODY,
    "folded length": post("Content-Length:\r\n 5") + BODY,
    "line without a colon": post("X-A", LENGTH) + BODY,
    "bare line feeds": post(LENGTH).replace(b"\r\n", b"\n") + BODY,
    "one bare line feed": post("X-A: b\nX-C: d", LENGTH) + BODY,
    "bare carriage return": post("X-A: b\rX-C: d", LENGTH) + BODY,
    "chunk size with a sign": post("Transfer-Encoding: chunked") + b"+5\r\nabcde\r\n0\r\n\r\n",
    "chunk size of letters": post("Transfer-Encoding: chunked") + b"zz\r\nabcde\r\n0\r\n\r\n",
    "chunk size beyond 64 bits": post("Transfer-Encoding: chunked") + b"11111111111111111\r\nabcde\r\n0\r\n\r\n",
    "chunk longer than its size": post("Transfer-Encoding: chunked") + b"2\r\nabcde\r\n0\r\n\r\n",
    "chunks with bare line feeds": post("Transfer-Encoding: chunked") + CHUNKS.replace(b"\r\n", b"\n"),
    "a length in the trailer": chunked(INFER, [BODY], trailer=b"Content-Length: 9\r\n"),
    "a coding in the trailer": chunked(INFER, [BODY], trailer=b"Transfer-Encoding: chunked\r\n"),
    "two hosts": message("GET", "/v2/health/live", headers=["Host: other"]),
    "no version": b"GET /v2/health/live\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    "HTTP/2 version": b"GET /v2/health/live HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "a tunnel": b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel to a route": b"CONNECT /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown method": b"BREW /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "lower-case method": b"get /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "space in the target": b"GET /v2/health/live x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS hello": bytes.fromhex("16030100c8010000c40303") + bytes(189),
    "a pickle": pickle.dumps({"a": 1}),
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_what_a_proxy_could_read_otherwise_gets_one_refusal_and_the_end(server: RunningServer, case: str) -> None:
    """What follows is never answered as a request of its own (pgjones/hypercorn#279)."""
    with RawClient(server.http_port) as client:
        client.send(AMBIGUOUS[case] + message("GET", "/v2/health/ready"))
        statuses = list(answers_in(client.rest()))
    assert len(statuses) == 1
    assert statuses[0] in (400, 404, 405, 501)
    assert_alive(server)


@pytest.mark.parametrize("split", [0, 1, 2, 3])
def test_a_request_hidden_in_a_body_stays_a_body(server: RunningServer, split: int) -> None:
    hidden = message("GET", "/v2/health/ready")
    with RawClient(server.http_port) as client:
        whole = message("POST", INFER, hidden)
        step = len(whole) if not split else -(-len(whole) // (split + 1))
        client.send_each(whole[start : start + step] for start in range(0, len(whole), step))
        assert client.answer().status == 400
        assert values_of(client.ask(infer([5.0]))) == [5.0]


@pytest.mark.parametrize("headers", [H2C, ("Upgrade: websocket", "Connection: keep-alive, Upgrade"), ("Upgrade: h2c",)])
def test_an_offer_to_switch_protocols_is_declined_by_a_right_answer(
    server: RunningServer, headers: tuple[str, ...]
) -> None:
    """As Java's HttpClient and `curl --http2` send them; the body, whole or late, is the request's own."""
    with RawClient(server.http_port) as client:
        assert values_of(client.ask(infer([1.0, 2.0], headers))) == [1.0, 2.0]
        offer = infer([3.0], headers)
        client.send_each([offer[:-20], offer[-20:-3], offer[-3:]])
        assert values_of(client.answer()) == [3.0]
        assert values_of(client.ask(chunked(INFER, [BODY[:9], BODY[9:]], headers))) == [1.0, 2.0]
        assert client.ask(message("GET", "/v2/health/live", headers=headers)).status == 200
        client.send(infer([4.0], headers) + LIVE + infer([5.0], headers))
        assert values_of(client.answer()) == [4.0]
        assert client.answer().json == {"live": True}
        assert values_of(client.answer()) == [5.0]


def test_an_offer_that_wants_the_connection_closed_gets_that(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        answer = client.ask(infer([1.0], ("Connection: Upgrade, close", "Upgrade: h2c")))
        assert values_of(answer) == [1.0]
        assert answer.headers["connection"] == "close"
        assert client.rest() == b""


@pytest.mark.parametrize(
    ("offer", "answered", "kept"), [((), "close", False), (("Connection: keep-alive",), "keep-alive", True)]
)
def test_http_1_0_closes_unless_asked_to_stay(
    server: RunningServer, offer: tuple[str, ...], answered: str, kept: bool
) -> None:
    request = message("POST", INFER, BODY, offer, version="1.0")
    with RawClient(server.http_port) as client:
        for _ in range(3 if kept else 1):
            answer = client.ask(request)
            assert values_of(answer) == [1.0, 2.0]
            assert answer.headers["connection"] == answered
        if not kept:
            assert client.rest() == b""


def test_a_request_without_host_is_refused_and_the_connection_goes_on(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        assert [client.ask(b"GET /v2/health/live HTTP/1.1\r\n\r\n").status for _ in range(2)] == [400, 400]
        assert client.ask(b"GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").status == 200
        assert client.ask(LIVE).status == 200


def test_close_is_obeyed_and_what_follows_it_ignored(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        client.send(infer([1.0], ["Connection: close"]) + LIVE)
        assert list(answers_in(client.rest())) == [200]


@pytest.mark.parametrize("space", [" ", "\t", " \t "])
def test_white_space_behind_a_header_s_value_means_nothing(server: RunningServer, space: str) -> None:
    own = [
        "Content-Type: application/json",
        "Content-Encoding: identity",
        "Guepard-Timeout-Ms: 5000",
        "X-Request-Id: a",
    ]
    good = post(f"{LENGTH}{space}", *[f"{header}{space}" for header in own]) + BODY
    promised = post(LENGTH, f"Expect: 100-continue{space}")
    closing = post(LENGTH, f"Connection: close{space}") + BODY
    with RawClient(server.http_port) as client:
        answer = client.ask(good)
        assert (values_of(answer), answer.headers["x-request-id"]) == ([1.0, 2.0], "a")
        assert values_of(client.ask(post("Transfer-Encoding: chunked ") + CHUNKS)) == [1.0, 2.0]
        assert client.ask(promised).status == 100
        assert values_of(client.ask(BODY)) == [1.0, 2.0]
        client.send(closing + LIVE)
        assert list(answers_in(client.rest())) == [200]


@pytest.mark.parametrize(
    "target", ["http://localhost/v2/health/live", "http://other:80/v2/health/live?a=b", "/v2/health/live?a=%00"]
)
def test_targets_in_full_and_with_a_query(server: RunningServer, target: str) -> None:
    with RawClient(server.http_port) as client:
        assert client.ask(message("GET", target)).json == {"live": True}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", INFER, "POST"),
        ("GET", INFER, "POST"),
        ("DELETE", "/v2/models/ident", "GET, HEAD"),
        ("POST", "/v2/health/live", "GET, HEAD"),
        ("OPTIONS", "/v2", "GET, HEAD"),
        ("GET", "/v2/repository/index", "POST"),
        ("PATCH", "/v2/repository/models/ident/load", "POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(server: RunningServer, method: str, path: str, allowed: str) -> None:
    with RawClient(server.http_port) as client:
        for _ in range(2):
            answer = client.ask(message(method, path, b"{}"))
            assert (answer.status, answer.headers["allow"]) == (405, allowed)
            assert answer.json["code"] == "method_not_allowed"
        assert client.ask(LIVE).status == 200


def test_head_has_the_head_of_get_and_no_body(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        for path, status in (
            ("/v2/health/live", 200),
            ("/v2/models/ident", 200),
            ("/v2/models/none", 404),
            (INFER, 405),
        ):
            client.send(message("HEAD", path))
            head = client.answer(to_head=True)
            assert head.status == status
            assert int(head.headers["content-length"]) > 0
        assert client.ask(LIVE).status == 200


def test_a_promised_body_is_asked_for(server: RunningServer) -> None:
    request = infer([1.0, 2.0], ["Expect: 100-continue"])
    head, _, body = request.partition(b"\r\n\r\n")
    with RawClient(server.http_port) as client:
        for _ in range(2):
            assert client.ask(head + b"\r\n\r\n").status == 100
            assert values_of(client.ask(body)) == [1.0, 2.0]


def test_a_promised_body_behind_another_request_is_asked_for(server: RunningServer) -> None:
    head, _, body = infer([2.0], ["Expect: 100-Continue"]).partition(b"\r\n\r\n")
    with RawClient(server.http_port) as client:
        client.send(infer([1.0]) + head + b"\r\n\r\n")
        assert values_of(client.answer()) == [1.0]
        assert client.answer().status == 100
        assert values_of(client.ask(body)) == [2.0]


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (message("POST", "/v2/models/none/infer", b"", ["Expect: 100-continue"], length=9), 404),
        (message("POST", INFER, b"", ["Expect: 100-continue", "Content-Type: text/html"], length=9), 415),
        (message("POST", INFER, b"", ["Expect: 100-continue"], length=10**9), 413),
        (message("POST", INFER, b"", ["Expect: magic"], length=9), 417),
    ],
)
def test_a_body_that_would_be_refused_is_not_asked_for(server: RunningServer, request_head: bytes, status: int) -> None:
    with RawClient(server.http_port) as client:
        answer = client.ask(request_head)
        assert answer.status == status


@pytest.mark.parametrize("extension", [b"", b";a=b", b';name="x;y"'])
@pytest.mark.parametrize("trailer", [b"", b"X-A: b\r\nHost: other\r\nExpect: magic\r\n"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_chunks_of_every_size_with_extensions_and_trailers(
    server: RunningServer, extension: bytes, trailer: bytes, size: int
) -> None:
    chunks = [BODY[start : start + size] for start in range(0, len(BODY), size)]
    request = chunked(INFER, chunks, extension=extension, trailer=trailer)
    with RawClient(server.http_port) as client:
        for _ in range(2):
            assert values_of(client.ask(request)) == [1.0, 2.0]
        client.send(request + LIVE)
        assert values_of(client.answer()) == [1.0, 2.0]
        assert client.answer().json == {"live": True}


@pytest.mark.parametrize("headers", [["X-A: " + "a" * 70_000], ["A: b"] * 200, [f"A{n}: b" for n in range(128)]])
def test_a_head_over_its_limits_is_refused(server: RunningServer, headers: list[str]) -> None:
    with RawClient(server.http_port) as client:
        client.send(message("POST", INFER, BODY, headers) + LIVE)
        assert list(answers_in(client.rest())) == [431]


def test_a_long_target_is_refused(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        client.send(message("GET", "/v2/" + "a" * 70_000))
        assert list(answers_in(client.rest())) == [431]


def test_a_head_without_end_is_refused_as_soon_as_it_is_too_long(server: RunningServer) -> None:
    with RawClient(server.http_port) as client, bounded(5.0):
        client.send(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: aaaaaaaa\r\n" * 6_000)
        assert client.answer().status == 431
        assert client.rest() == b""


def test_a_head_within_its_limits_is_read(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        assert values_of(client.ask(infer([1.0], ["X-A: " + "a" * 60_000]))) == [1.0]
        assert values_of(client.ask(infer([2.0], [f"A{n}: b" for n in range(126)]))) == [2.0]


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (None, 200),
        ("application/json", 200),
        ("Application/JSON; Charset=UTF-8", 200),
        ("application/x-www-form-urlencoded", 200),
        ("application/octet-stream", 200),
        ("text/plain; charset=utf-16", 415),
        ("application/json; charset=utf-16", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/html", 415),
        ("application/json/x", 415),
        (";", 415),
    ],
)
def test_the_type_of_a_body_is_never_fatal(server: RunningServer, content_type: str | None, status: int) -> None:
    """triton-inference-server/server#2643. Twice on one connection: a head that was refused stays refused."""
    headers = [f"Content-Type: {content_type}"] if content_type is not None else []
    with RawClient(server.http_port) as client:
        assert [client.ask(infer([1.0], headers)).status for _ in range(3)] == [status] * 3
    assert_alive(server)


NESTED = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        NESTED,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"inputs":[],"parameters":{"a":%b}}' % NESTED,
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":%b}]}' % NESTED,
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1],"parameters":{"a":%b}}]}' % NESTED,
        b"[" * 1_000_000,
    ],
)
@pytest.mark.parametrize("path", [INFER, "/v2/repository/models/ident/load"])
def test_deep_nesting_is_refused_and_kills_nothing(server: RunningServer, path: str, body: bytes) -> None:
    """triton-inference-server/common PR#156."""
    with RawClient(server.http_port) as client, bounded(1.0):
        assert client.ask(message("POST", path, body)).status == 400
    assert_alive(server)

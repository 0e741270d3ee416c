"""Bodies with a Content-Encoding on their way in, answers with one on their way out."""

import gzip
import json
import threading
import time
from pathlib import Path

import brotli
import pytest

from guepard.protocols import content_coding
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.codings import CODINGS, COMPRESS, DECOMPRESS, bare_deflate
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import (
    LIVE,
    RawClient,
    assert_alive,
    bounded,
    chunked,
    gauge,
    infer,
    message,
    tensor_body,
    values_of,
)
from tests.services.waiting import wait_until

INFER = "/v2/models/ident/infer"
MIB = 2**20
MAX_REQUEST_BYTES = 16 * MIB
SMALL = tensor_body([1.5, -2.0])
LARGE_VALUES = [n / 8 for n in range(200_000)]
LARGE = tensor_body(LARGE_VALUES)


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    return serve(
        f"ident={write_model(models / 'ident', identity('FP32', ['n', 'm']))}",
        "--max-request-bytes",
        MAX_REQUEST_BYTES,
        "--max-inflight-bytes",
        40 * MIB,
        "--log-sample-rate",
        "1",
    )


@pytest.fixture(autouse=True)
def nothing_is_left(server: RunningServer) -> object:
    yield
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 0)


def resident_bytes(server: RunningServer, what: str) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1_024 for line in status.splitlines() if line.startswith(what))


# Bodies of requests


@pytest.mark.parametrize("coding", [*CODINGS, "GZIP", "x-gzip"])
def test_small_and_large_bodies_are_unfolded(server: RunningServer, coding: str) -> None:
    """Twice each on one connection: a head that was seen before says the same."""
    compress = COMPRESS[coding.lower().removeprefix("x-")]
    headers = [f"Content-Encoding: {coding}"]
    with RawClient(server.http_port) as client:
        for body, values in ((SMALL, [1.5, -2.0]), (LARGE, LARGE_VALUES)) * 2:
            assert values_of(client.ask(message("POST", INFER, compress(body), headers))) == values
        coded = compress(LARGE)
        pieces = [coded[at : at + 50_000] for at in range(0, len(coded), 50_000)]
        assert values_of(client.ask(chunked(INFER, pieces, headers))) == LARGE_VALUES
        assert values_of(client.ask(infer([3.0]))) == [3.0]


def test_deflate_without_its_wrapper_is_read(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        asked = message("POST", INFER, bare_deflate(SMALL), ["Content-Encoding: deflate"])
        assert values_of(client.ask(asked)) == [1.5, -2.0]


@pytest.mark.parametrize("coding", CODINGS)
def test_the_length_of_the_json_part_is_that_of_the_unfolded_body(server: RunningServer, coding: str) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    text = json.dumps({"inputs": [tensor]}).encode()
    headers = [f"Content-Encoding: {coding}", f"Inference-Header-Content-Length: {len(text)}"]
    with RawClient(server.http_port) as client:
        body = COMPRESS[coding](text + b"\0\0\x80\x3f\0\0\0\x40")
        assert values_of(client.ask(message("POST", INFER, body, headers))) == [1.0, 2.0]


def test_documents_read_coded_bodies_too(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        for body in (b'{"ready": true}', b'{"ready": true, "x": "' + b"a" * 200_000 + b'"}'):
            coded = message("POST", "/v2/repository/index", gzip.compress(body), ["Content-Encoding: gzip"])
            assert [model["name"] for model in client.ask(coded).json] == ["ident"]
        wrong = message("POST", "/v2/repository/index", gzip.compress(b"[]"), ["Content-Encoding: gzip"])
        assert client.ask(wrong).status == 400


@pytest.mark.parametrize("body", [SMALL, LARGE[:80_000]])
@pytest.mark.parametrize("coding", ["gzip, gzip", "gzip, identity", "compress", "x", "gzip;q=1", "aws-chunked"])
def test_other_codings_are_415_and_the_answer_names_those_that_are_read(
    server: RunningServer, coding: str, body: bytes
) -> None:
    with RawClient(server.http_port) as client:
        answer = client.ask(message("POST", INFER, body, [f"Content-Encoding: {coding}"]))
        assert (answer.status, answer.json["code"]) == (415, "unsupported_media_type")
        assert answer.headers["accept-encoding"] == "zstd, br, gzip, deflate"
        assert coding in answer.json["error"]


def test_what_is_no_coding_is_read_as_it_is(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        for coding in ("identity", "Identity", ""):
            assert values_of(client.ask(infer([1.0], [f"Content-Encoding: {coding}"]))) == [1.0]
        assert client.ask(message("GET", "/v2", headers=["Content-Encoding: gzip"])).status == 200
        empty = client.ask(message("POST", "/v2/repository/index", b"", ["Content-Encoding: gzip"]))
        assert empty.status == 200
        assert client.ask(message("POST", INFER, b"", ["Content-Encoding: gzip"])).status == 400


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("body", [SMALL, LARGE])
def test_what_cannot_be_unfolded_is_400_and_the_connection_goes_on(
    server: RunningServer, coding: str, body: bytes
) -> None:
    coded = COMPRESS[coding](body)
    headers = [f"Content-Encoding: {coding}"]
    with RawClient(server.http_port) as client:
        for wrong in (coded[:-1], coded[: len(coded) // 2], coded + b"x", body):
            answer = client.ask(message("POST", INFER, wrong, headers))
            assert (answer.status, answer.json["code"]) == (400, "invalid_argument")
            assert answer.json["error"].startswith("request body: ")
        assert values_of(client.ask(message("POST", INFER, COMPRESS[coding](SMALL), headers))) == [1.5, -2.0]


def bomb(coding: str, size: int = 200 * MIB) -> bytes:
    """So many zeros."""
    encoder = content_coding.encoder(coding)
    pieces = [encoder.compress(bytes(MIB)) for _ in range(size // MIB)]
    return b"".join([*pieces, encoder.finish()])


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_413_in_bounded_time_and_memory(server: RunningServer, coding: str) -> None:
    """headroomlabs-ai/headroom PR#3325: the limit looked at the compressed length only."""
    body = bomb(coding)
    before = resident_bytes(server, "VmRSS")
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")  # the peak begins anew
    with RawClient(server.http_port) as client, RawClient(server.http_port, timeout_s=1.0) as neighbour:
        with bounded(2.0):
            client.send(message("POST", INFER, body, [f"Content-Encoding: {coding}"]))
            assert neighbour.ask(LIVE).status == 200
            answer = client.answer()
        assert (answer.status, answer.json["code"]) == (413, "payload_too_large")
        assert str(MAX_REQUEST_BYTES) in answer.json["error"]
        assert values_of(client.ask(infer([1.0]))) == [1.0]
    assert resident_bytes(server, "VmHWM") - before < MAX_REQUEST_BYTES + 64 * MIB
    assert_alive(server)


def test_a_small_body_that_unfolds_beyond_the_limit_is_413(server: RunningServer) -> None:
    body = brotli.compress(bytes(32 * MIB), quality=5)
    assert len(body) < 16_384
    with RawClient(server.http_port) as client:
        assert client.ask(message("POST", INFER, body, ["Content-Encoding: br"])).status == 413


def test_what_is_unfolded_counts_among_the_bytes_in_flight(server: RunningServer) -> None:
    """Each body is within its own bound, eight together are beyond the one for all: some are told to come again."""
    body = gzip.compress(b'{"a":"' + b"a" * (15 * MIB) + b'"}')
    clients = [RawClient(server.http_port) for _ in range(8)]
    for client in clients:
        client.send(message("POST", INFER, body, ["Content-Encoding: gzip"]))
    statuses = {client.answer().status for client in clients}
    assert statuses <= {400, 429}
    assert gauge(server, "guepard_inflight_bytes") <= 40 * MIB
    for client in clients:
        client.close()


@pytest.mark.parametrize("coding", CODINGS)
def test_a_client_that_leaves_meanwhile_leaves_nothing(server: RunningServer, coding: str) -> None:
    """`nothing_is_left` is the assertion."""
    body = COMPRESS[coding](b'{"a":"' + b"a" * (15 * MIB) + b'"}')
    for _ in range(3):
        client = RawClient(server.http_port)
        client.send(message("POST", INFER, body, [f"Content-Encoding: {coding}"]))
        client.reset()
    assert_alive(server)


def test_requests_behind_a_coded_one_are_answered_after_it(server: RunningServer) -> None:
    coded = message("POST", INFER, gzip.compress(LARGE), ["Content-Encoding: gzip"])
    with RawClient(server.http_port) as client:
        client.send(coded + infer([1.0]) + coded + infer([2.0]))
        assert [len(values_of(client.answer())) for _ in range(4)] == [200_000, 1, 200_000, 1]


def test_others_are_served_while_a_body_is_unfolded(server: RunningServer) -> None:
    """Until the large bodies are through, small requests of another connection are answered."""
    body = message("POST", INFER, bomb("deflate"), ["Content-Encoding: deflate"])
    ended = threading.Event()

    def send_bombs() -> None:
        with RawClient(server.http_port) as client:
            for _ in range(3):
                assert client.ask(body).status == 413
        ended.set()

    thread = threading.Thread(target=send_bombs)
    thread.start()
    slowest = 0.0
    with RawClient(server.http_port) as client:
        while not ended.is_set():
            started = time.perf_counter()
            assert values_of(client.ask(infer([1.0]))) == [1.0]
            slowest = max(slowest, time.perf_counter() - started)
    thread.join()
    assert slowest < 1.0


# Bodies of answers


def ask_coded(server: RunningServer, asked: bytes, port: int | None = None) -> tuple[dict[str, str], bytes]:
    with RawClient(port or server.http_port) as client:
        answer = client.ask(asked)
    coding = answer.headers.get("content-encoding")
    return answer.headers, DECOMPRESS[coding](answer.body) if coding else answer.body


@pytest.mark.parametrize("values", [400, 8_000, 20_000])
@pytest.mark.parametrize("coding", CODINGS)
def test_answers_are_coded_as_the_client_accepts(server: RunningServer, coding: str, values: int) -> None:
    """On the loop, and beside it: in chunks."""
    numbers = [n / 7 for n in range(values)]
    plain_headers, plain = ask_coded(server, infer(numbers))
    headers, body = ask_coded(server, infer(numbers, [f"Accept-Encoding: {coding}"]))
    assert body == plain
    assert headers["content-encoding"] == coding
    assert headers["vary"] == plain_headers["vary"] == "accept-encoding"
    assert headers["guepard-model-version"] == "1"
    assert "content-encoding" not in plain_headers
    assert plain_headers["content-length"] == str(len(plain))


def test_small_answers_and_bytes_are_not_coded(server: RunningServer) -> None:
    accepts = "Accept-Encoding: gzip"
    headers, _ = ask_coded(server, infer([1.0], [accepts]))
    assert not {"content-encoding", "vary"} & headers.keys()
    request = json.loads(tensor_body([1.0] * 2_000)) | {"parameters": {"binary_data_output": True}}
    headers, body = ask_coded(server, message("POST", INFER, json.dumps(request).encode(), [accepts]))
    assert not {"content-encoding", "vary"} & headers.keys()
    assert len(body) > 8_000


def test_who_excludes_identity_gets_small_answers_coded(server: RunningServer) -> None:
    headers, body = ask_coded(server, infer([1.0], ["Accept-Encoding: gzip, identity;q=0"]))
    assert headers["content-encoding"] == "gzip"
    assert json.loads(body)["outputs"][0]["data"] == [1.0]
    headers, body = ask_coded(server, infer([1.0], ["Accept-Encoding: identity;q=0"]))
    assert "content-encoding" not in headers


def test_documents_errors_and_metrics_are_coded(server: RunningServer) -> None:
    accepts = ["Accept-Encoding: gzip, deflate"]
    long = message("POST", INFER, tensor_body([1.0]).replace(b'"x"', b'"%b"' % (b"x" * 1_000)), accepts)
    headers, body = ask_coded(server, long)
    assert headers["content-encoding"] == "gzip"
    assert json.loads(body)["code"] == "invalid_argument"
    headers, body = ask_coded(server, message("GET", "/metrics", headers=accepts), server.metrics_port)
    assert headers["content-encoding"] == "gzip"
    assert b"guepard_inflight_bytes" in body


def test_head_says_nothing_that_a_get_would_deny(server: RunningServer) -> None:
    """Its answer has no body to be coded, so that the length of one is not known."""
    with RawClient(server.metrics_port) as client:
        client.send(message("HEAD", "/metrics", headers=["Accept-Encoding: gzip"]))
        answer = client.answer(to_head=True)
        assert answer.headers["vary"] == "accept-encoding"
        assert not {"content-length", "transfer-encoding"} & answer.headers.keys()
        plain = message("HEAD", "/metrics")
        client.send(plain)
        assert int(client.answer(to_head=True).headers["content-length"]) > 1_024


@pytest.mark.parametrize("values", [400, 20_000])
def test_http_1_0_gets_a_length_and_no_chunks(server: RunningServer, values: int) -> None:
    asked = message(
        "POST", INFER, tensor_body([n / 7 for n in range(values)]), ["Accept-Encoding: gzip"], version="1.0"
    )
    headers, body = ask_coded(server, asked)
    assert headers["content-encoding"] == "gzip"
    assert "transfer-encoding" not in headers
    assert len(json.loads(body)["outputs"][0]["data"]) == values


def test_the_log_has_the_bytes_that_were_sent(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        for values, name in ((400, "small"), (20_000, "large")):
            asked = infer([n / 7 for n in range(values)], ["Accept-Encoding: gzip", f"X-Request-Id: coded-{name}"])
            answer = client.ask(asked)
            record = server.wait_for_record(f"coded-{name}")
            assert (record["status"], record["bytes_out"]) == (200, len(answer.body))

"""Targets that are made ready without asking anybody."""

import json
from pathlib import Path
from typing import Any

import pytest

from guepard.bench.targets.prepare import prepare
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.target_question import TargetQuestion
from guepard.core.errors import ConfigurationError

# Nothing listens on this port of the discard prefix's address: whoever asks fails.
HOST = "http://127.0.0.1:9"


def ready(**question: Any) -> PreparedTarget:
    return prepare(TargetQuestion(**question))


def head(prepared: PreparedTarget, index: int = 0) -> list[str]:
    return prepared.payloads[index].data.partition(b"\r\n\r\n")[0].decode().split("\r\n")


def body(prepared: PreparedTarget, index: int = 0) -> bytes:
    return prepared.payloads[index].data.partition(b"\r\n\r\n")[2]


def test_a_url_is_a_get() -> None:
    prepared = ready(url=f"{HOST}/health?x=1", headers=("X-A: 1",), expect="ok")
    assert head(prepared)[0] == "GET /health?x=1 HTTP/1.1"
    assert "X-A: 1" in head(prepared)
    assert (prepared.endpoint.protocol, prepared.endpoint.host, prepared.endpoint.port) == ("http", "127.0.0.1", 9)
    assert (prepared.reply.expect, prepared.reply.events, prepared.is_head) == ("ok", False, False)
    assert (prepared.target.protocol, prepared.target.url) == ("http", f"{HOST}/health?x=1")
    assert prepared.target.same_machine
    assert prepared.source == "the URL alone"


def test_secrets_go_to_the_server_and_not_into_the_result() -> None:
    prepared = ready(url="http://me:secret@127.0.0.1:9/p", headers=("X-Key: hidden",))
    assert "Authorization: Basic bWU6c2VjcmV0" in head(prepared)
    assert "secret" not in str(prepared.target) + prepared.source + str(prepared.notes)
    assert prepared.headers == (("Authorization", "Basic bWU6c2VjcmV0"), ("X-Key", "hidden"))


def test_a_body_is_a_post_of_what_it_looks_like() -> None:
    prepared = ready(url=f"{HOST}/p", body='{"x": 0.1234567}')
    assert head(prepared)[0] == "POST /p HTTP/1.1"
    assert "Content-Type: application/json" in head(prepared)
    assert prepared.payloads[0].spot is not None
    assert "Content-Type: text/plain; charset=utf-8" in head(ready(url=f"{HOST}/p", body="héllo", method="PUT"))
    told = head(ready(url=f"{HOST}/p", body="1", headers=("content-type: text/csv",)))
    assert [line for line in told if "ontent-" in line and "ype" in line] == ["content-type: text/csv"]


def test_files_are_bodies_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(b"\xff\xd8\x00\r\n")
    (tmp_path / "2.bin").write_bytes(b"")
    (tmp_path / "3.txt").write_bytes(b"a\nb\n")
    prepared = ready(url=f"{HOST}/p", data=str(tmp_path))
    assert [body(prepared, index) for index in range(3)] == [b"\xff\xd8\x00\r\n", b"", b"a\nb\n"]
    assert "Content-Type: image/jpeg" in head(prepared)
    assert "Content-Type: application/octet-stream" in head(prepared, 1)
    assert prepared.source == f"samples in {tmp_path}"


def test_lists_and_lines_of_json_are_several_bodies(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a" : 1}, {"b":2}]')
    (tmp_path / "b.jsonl").write_text("[1]\n[2]\n")
    prepared = ready(url=f"{HOST}/p", data=str(tmp_path))
    assert [body(prepared, index) for index in range(4)] == [b'{"a" : 1}', b'{"b":2}', b"[1]", b"[2]"]
    assert any("each of the 2 items" in note for note in prepared.notes)


def test_head_requests_are_marked() -> None:
    assert ready(url=f"{HOST}/p", method="HEAD").is_head
    assert ready(curl=f"curl -I {HOST}/p").is_head


def test_a_curl_line() -> None:
    prepared = ready(curl=f"curl -s {HOST}/p -H 'X-A: 1' -H 'X-B: 1' -d '{{}}' -m 3", headers=("X-B: 2",))
    assert head(prepared)[0] == "POST /p HTTP/1.1"
    assert [line for line in head(prepared) if line.startswith("X-")] == ["X-A: 1", "X-B: 2"]
    assert body(prepared) == b"{}"
    assert prepared.source == "the curl command"
    assert any(note.startswith("--max-time is passed over") for note in prepared.notes)


def test_what_a_curl_line_takes_away_is_not_sent() -> None:
    assert not [line for line in head(ready(curl=f"curl {HOST}/p -H Accept:")) if line.startswith("Accept")]


def test_a_curl_line_that_leaves_the_url_or_the_bodies_to_others(tmp_path: Path) -> None:
    assert head(ready(url=f"{HOST}/q", curl="curl -X PATCH"))[0] == "PATCH /q HTTP/1.1"
    (tmp_path / "a.jsonl").write_text("1\n2\n")
    prepared = ready(curl=f"curl {HOST}/p -d x", data=str(tmp_path / "a.jsonl"))
    assert [body(prepared, index) for index in range(2)] == [b"1", b"2"]


def test_streams_that_a_curl_line_asks_for_are_read_as_streams() -> None:
    asked = '{"model":"m","messages":[],"stream": true}'
    assert ready(curl=f"curl {HOST}/v1/chat/completions -d '{asked}'").reply.last_event == "[DONE]"
    assert not ready(curl=f"curl {HOST}/v1/chat/completions -d '{{}}'").reply.events
    generate = ready(curl=f"curl {HOST}/v2/models/m/generate_stream -d '{{}}'").reply
    assert (generate.events, generate.last_event, generate.piece) == (True, "", "")


def test_an_openapi_file(tmp_path: Path) -> None:
    path = tmp_path / "api.yaml"
    path.write_text(
        "openapi: 3.0.3\nservers: [{url: /api}]\npaths:\n  /p:\n    post:\n      requestBody:\n"
        "        content: {application/json: {examples: {a: {value: {x: 1}}, b: {value: {x: 2}}}}}\n"
    )
    prepared = ready(url=HOST, openapi=str(path))
    assert head(prepared)[0] == "POST /api/p HTTP/1.1"
    assert [body(prepared, index) for index in range(2)] == [b'{"x":1}', b'{"x":2}']
    assert prepared.source == f"POST /p in {path}"
    assert head(ready(url=f"{HOST}/gate", openapi=str(path)))[0] == "POST /gate/p HTTP/1.1"
    with pytest.raises(ConfigurationError, match="does not say where its server is"):
        ready(openapi=str(path))
    with pytest.raises(ConfigurationError, match=r"gone\.yaml: cannot be read"):
        ready(url=HOST, openapi=str(tmp_path / "gone.yaml"))


def test_an_openai_target() -> None:
    prepared = ready(url=f"{HOST}/v1/chat/completions", model="m", corpus_size=5)
    assert head(prepared)[0] == "POST /v1/chat/completions HTTP/1.1"
    assert (prepared.target.protocol, prepared.target.model) == ("openai-chat", "m")
    assert len({payload.data for payload in prepared.payloads}) == 5
    assert all(payload.spot for payload in prepared.payloads)
    assert (prepared.reply.events, prepared.reply.last_event) == (True, "[DONE]")
    whole = ready(url=HOST, protocol="openai-completions", model="m", body='{"stream": false, "prompt": "p"}')
    assert head(whole)[0] == "POST /v1/completions HTTP/1.1"
    assert json.loads(body(whole)) == {"model": "m", "stream": False, "max_tokens": 64, "prompt": "p"}
    assert (len(whole.payloads), whole.reply.events) == (1, False)
    assert not ready(url=f"{HOST}/v1/embeddings", model="m").reply.events


def test_samples_of_an_openai_target(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('"one"\n{"prompt": "two", "model": "n"}\n')
    prepared = ready(url=f"{HOST}/v1/completions", model="m", data=str(path), body='{"max_tokens": 9}')
    bodies = [json.loads(body(prepared, index)) for index in range(2)]
    assert [(each["model"], each["prompt"], each["max_tokens"]) for each in bodies] == [
        ("m", "one", 9),
        ("n", "two", 9),
    ]
    path.write_text('{"prompt": "a"}\n{"prompt": "a", "stream": false}\n')
    with pytest.raises(ConfigurationError, match="measure them apart"):
        ready(url=f"{HOST}/v1/completions", model="m", data=str(path))


def test_equal_questions_have_equal_corpora_on_every_server() -> None:
    def digest(url: str, **question: Any) -> str:
        return ready(url=url + "/v1/embeddings", model="m", corpus_size=3, **question).sha256

    assert digest(HOST) == digest("http://localhost:10")
    assert digest(HOST) != digest(HOST, seed=2)


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ({}, "name what to measure"),
        ({"url": HOST, "protocol": "soap"}, "--protocol soap: unknown; use one of auto"),
        ({"url": HOST, "batch": 0}, "--batch 0"),
        ({"url": HOST, "seed": -1}, "--seed -1"),
        ({"url": HOST, "timeout_s": 0.0}, "--timeout 0"),
        ({"url": HOST, "curl": "curl", "openapi": "f"}, "--curl and --openapi"),
        ({"url": HOST, "operation": "POST /"}, "--operation"),
        ({"url": f"{HOST}/p", "data": "f", "body": "b"}, "--data and --body"),
        ({"curl": "curl h", "protocol": "predict"}, "--protocol predict: --curl gives a whole HTTP request"),
        ({"url": HOST, "expect": "("}, r"--expect \(: no regular expression"),
        ({"url": f"{HOST}/p", "ca_file": "/nowhere.pem"}, "--ca-file /nowhere.pem: cannot be read"),
        ({"url": f"{HOST}/p", "ca_file": __file__}, "holds no certificates"),
        ({"url": f"{HOST}/p", "model": "m"}, "--model: means nothing"),
        ({"url": f"{HOST}/p", "headers": ("x",)}, "'Name: value'"),
        ({"url": f"{HOST}/p", "method": "G T"}, "--method"),
        ({"url": f"{HOST}/p", "data": "/nowhere"}, "--data /nowhere: no such file"),
        ({"url": "grpc://h:1/m", "protocol": "oip-json"}, "grpc:// is for oip-grpc; write http://"),
        ({"url": "grpc://h:1/m", "protocol": "http"}, "grpc:// is for oip-grpc; write http://"),
        ({"url": f"{HOST}/v2/models/a", "model": "b"}, "--model b: the URL names a"),
        ({"url": f"{HOST}/v2/models/a/versions/1", "model_version": "2"}, "--model-version 2: the URL names 1"),
        ({"url": f"{HOST}/v2/models/a", "method": "PUT"}, "--method PUT: oip-json has its own"),
        ({"url": f"{HOST}/v1/completions", "model": "m", "shapes": ("x:1",)}, "--shape: means nothing"),
        ({"url": f"{HOST}/v1/completions", "model": "m", "expect": "x"}, "--expect: a stream"),
        ({"url": f"{HOST}/p", "curl": f"curl {HOST}/q"}, "leave .* out"),
        ({"curl": "curl -d x"}, "names no URL"),
        ({"curl": "curl -d x grpc://h:1"}, "grpc:// is for oip-grpc"),
    ],
)  # fmt: skip
def test_wrong_questions(question: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        ready(**question)

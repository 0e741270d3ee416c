"""What is made ready to be measured, against servers: our own for every protocol, and foreign ones."""

import socket
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson
import pytest

from guepard.bench.targets.prepare import prepare
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.probe import probe
from guepard.bench.targets.target_question import TargetQuestion
from guepard.bench.targets.target_refused import TargetRefused
from guepard.core.errors import ConfigurationError
from guepard.measure.load.corpus import payloads_of
from guepard.measure.load.plan import Payload, PayloadOrder
from guepard.protocols.grpc_messages import message_class
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.certificates import Certificate, make_certificate
from tests.services.foreign_servers import Asked, Told, foreign_grpc_server, foreign_server
from tests.services.identities import onnx_identities

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"
PROTOCOLS = ("oip-json", "oip-binary", "oip-grpc", "predict")
DATATYPES = ("bool", "uint8", "int64", "fp16", "bf16", "fp32", "fp64", "bytes")


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    onnx = {"masked": onnx_models.masked_mean(), "add": onnx_models.add(), "fixed": onnx_models.fixed_batch()}
    arguments = [f"{name}={onnx_models.write_model(models / f'{name}.onnx', model)}" for name, model in onnx.items()]
    return serve(*onnx_identities(models), *arguments, f"text={PYTHON_MODELS}:EchoBytes", "--trust")


@pytest.fixture(scope="module")
def certificate(models: Path) -> Certificate:
    return make_certificate(models, "127.0.0.1")


def ready(url: str, **question: Any) -> PreparedTarget:
    return prepare(TargetQuestion(url=url, timeout_s=10.0, corpus_size=question.pop("corpus_size", 8), **question))


def url_for(server: RunningServer, protocol: str) -> str:
    return f"grpc://{server.grpc_address}" if protocol == "oip-grpc" else server.url


def refusal(url: str, **question: Any) -> str:
    with pytest.raises(TargetRefused) as caught:
        probe(ready(url, **question), timeout_s=10.0)
    return str(caught.value)


def send(prepared: PreparedTarget, payload: Payload, data: bytes) -> None:
    """Send this payload as the first one. Raises: TargetRefused."""
    probe(msgspec.structs.replace(prepared, payloads=(msgspec.structs.replace(payload, data=data),)))


# Our own server


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("model", [*(f"ident_{name}" for name in DATATYPES), "masked", "text", "fixed"])
def test_every_model_takes_what_is_made_from_its_metadata(server: RunningServer, model: str, protocol: str) -> None:
    prepared = ready(url_for(server, protocol), protocol=protocol, model=model)
    assert len({payload.data for payload in prepared.payloads}) == 8
    assert (prepared.target.protocol, prepared.target.model, prepared.target.model_version) == (protocol, model, "1")
    assert prepared.target.same_machine
    answer = probe(prepared)
    assert answer.server is not None
    assert answer.server.startswith("guepard 0.")
    assert answer.body_bytes > 0
    if model in ("ident_bool", "fixed"):
        return
    made = payloads_of(prepared.payloads, PayloadOrder(kind="unique"), first=0, share=0, shares=1, seed=1)
    different = {data for _, data, _ in islice(made, 1_000)}
    assert len(different) == 1_000
    for index, data, _ in islice(made, 3):
        send(prepared, prepared.payloads[index], data)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_batches_and_shapes(server: RunningServer, protocol: str) -> None:
    url = url_for(server, protocol)
    rows = ready(url, protocol=protocol, model="add", batch=3)
    one = ready(url, protocol=protocol, model="add")
    assert len(rows.payloads[0].data) > len(one.payloads[0].data)
    probe(rows)
    shaped = ready(url, protocol=protocol, model="masked", shapes=("ids:5", "mask:5"))
    assert not any("--shape" in note for note in shaped.notes)
    probe(shaped)
    with pytest.raises(ConfigurationError, match=r"--batch 2: input 'x' has the shape \[1, 4\]"):
        ready(url, protocol=protocol, model="fixed", batch=2)


@pytest.mark.parametrize(
    ("path", "protocol", "version"),
    [
        ("/v2/models/add", "oip-json", "1"),
        ("/v2/models/add/infer", "oip-json", "1"),
        ("/v2/models/add/versions/1/infer", "oip-json", "1"),
        ("/v1/models/add:predict", "predict", "1"),
        ("/v2/health/live", "http", None),
    ],
)
def test_the_url_says_what_is_measured(server: RunningServer, path: str, protocol: str, version: str | None) -> None:
    prepared = ready(server.url + path)
    assert (prepared.target.protocol, prepared.target.model_version) == (protocol, version)
    probe(prepared)


def test_the_only_model_needs_no_name(serve: Serve, models: Path) -> None:
    alone = serve(f"alone={onnx_models.write_model(models / 'alone.onnx', onnx_models.double())}")
    for url in (alone.url, f"{alone.url}/v2", f"grpc://{alone.grpc_address}"):
        prepared = ready(url)
        assert prepared.target.model == "alone"
        probe(prepared)
    assert ready(alone.url, protocol="predict").target.model == "alone"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_several_models_are_listed(server: RunningServer, protocol: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the server has add, fixed, ident_bf16, .*; name one with --model"):
        ready(url_for(server, protocol), protocol=protocol)
    assert "the server has add, fixed" in refusal(url_for(server, protocol), protocol=protocol, model="nobody")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_samples_of_every_kind(server: RunningServer, protocol: str, tmp_path: Path) -> None:
    url = url_for(server, protocol)
    arrays = tmp_path / "data.npz"
    np.savez(arrays, a=np.arange(12.0).reshape(3, 4), b=np.ones((3, 4), np.float32))
    prepared = ready(url, protocol=protocol, model="add", data=str(arrays))
    assert len(prepared.payloads) == 3
    assert prepared.source == f"samples in {arrays}"
    lines = tmp_path / "data.txt"
    lines.write_text("one\nzwei\n")
    texts = ready(url, protocol=protocol, model="text", data=str(lines))
    assert [b"one" in texts.payloads[0].data, b"zwei" in texts.payloads[1].data] == [True, True]
    for target in (prepared, texts):
        for payload in target.payloads:
            send(target, payload, payload.data)
    np.savez(arrays, a=np.ones((3, 5)), b=np.ones((3, 4)))
    with pytest.raises(ConfigurationError, match=r"data\.npz: input 'a' has the shape \[1, 5\], model 'add' takes"):
        ready(url, protocol=protocol, model="add", data=str(arrays))


@pytest.mark.parametrize("protocol", ["oip-json", "oip-binary", "oip-grpc"])
def test_requests_of_oip_are_sent_over_each_of_its_forms(server: RunningServer, protocol: str) -> None:
    given = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[0.1234567,1]}],"id":"7"}'
    prepared = ready(url_for(server, protocol), protocol=protocol, model="ident_fp32", body=given)
    assert prepared.payloads[0].data.endswith(given.encode()) == (protocol == "oip-json")
    assert prepared.payloads[0].spot is not None
    probe(prepared)
    with pytest.raises(ConfigurationError, match="--body: input 'x' is FP64, model 'ident_fp32' takes FP32"):
        ready(url_for(server, protocol), protocol=protocol, model="ident_fp32", body=given.replace("FP32", "FP64"))


def test_requests_of_predict(server: RunningServer, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"instances":[{"a":[1,2,3,4],"b":[1,2,3,4]}]}\n{"inputs":{"a":[[1,2,3,4]],"b":[[0,0,0,0]]}}\n')
    prepared = ready(f"{server.url}/v1/models/add:predict", data=str(path))
    for payload in prepared.payloads:
        send(prepared, payload, payload.data)
    path.write_text('{"instances":[{"a":[1,2,3],"b":[1,2,3,4]}]}')
    with pytest.raises(ConfigurationError, match=r"line 1: input 'a' has the shape \[1, 3\]"):
        ready(f"{server.url}/v1/models/add:predict", data=str(path))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_the_model_refuses_is_told_with_what_was_assumed(server: RunningServer, protocol: str) -> None:
    told = refusal(url_for(server, protocol), protocol=protocol, model="masked", shapes=("ids:5",))
    assert "--shape mask:16" in told


def test_the_server_s_own_openapi_document(server: RunningServer) -> None:
    prepared = prepare(
        TargetQuestion(
            openapi=f"{server.url}/openapi.json", operation="POST /v2/models/{model}/infer", expect="outputs"
        )
    )
    probe(prepared)
    with pytest.raises(ConfigurationError, match="say which operation"):
        prepare(TargetQuestion(openapi=f"{server.url}/openapi.json"))
    with pytest.raises(TargetRefused, match=r"--openapi .*/none.json: 404"):
        prepare(TargetQuestion(openapi=f"{server.url}/none.json"))


def test_the_line_that_the_server_s_users_paste(server: RunningServer) -> None:
    document = orjson.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}).decode()
    prepared = prepare(TargetQuestion(curl=f"curl -s {server.url}/v2/models/ident_fp32/infer -d '{document}'"))
    assert probe(prepared).body_bytes > 50
    told = refusal("", curl=f"curl {server.url}/v2/models/ident_fp32/infer -d '{{}}'")
    assert "400 Bad Request" in told
    assert "inputs" in told


def test_a_port_of_another_protocol(server: RunningServer) -> None:
    http, grpc = f"127.0.0.1:{server.http_port}", server.grpc_address
    assert f"write grpc://{grpc}" in refusal(f"http://{grpc}/v2/models/add")
    assert f"write http://{http}" in refusal(f"grpc://{http}/add")
    assert f"does not speak TLS here; write http://{http}" in refusal(f"https://{http}/v2/models/add")
    assert f"does not speak TLS here; write grpc://{grpc}" in refusal(f"grpcs://{grpc}/add")


# Foreign servers


def oip_like(asked: Asked) -> Told:
    """A server with the least of OIP, behind a prefix and a key."""
    path, _, query = asked.path.partition("?")
    if asked.headers.get("authorization") != "Bearer key" and query != "key=1":
        return Told(401, {"error": "no key"})
    match path:
        case "/gate/v2":
            return Told(200, {"name": "other", "version": "9"})
        case "/gate/v2/models/m":
            return Told(200, {"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]})
        case "/gate/v2/models/m/infer":
            return Told(200, {"outputs": asked.json["inputs"]})
        case "/gate/v2/repository/index":
            return Told(200, [{"name": "m", "state": "READY"}, {"name": "gone", "state": "UNAVAILABLE"}])
    return Told(404, {"error": "nothing here"})


def test_a_server_behind_a_prefix_and_a_key() -> None:
    with foreign_server(oip_like) as server:
        prepared = ready(f"{server.url}/gate/v2", headers=("Authorization: Bearer key",))
        assert (prepared.target.model, prepared.target.server) == ("m", "other 9")
        assert prepared.path_prefix == "/gate"
        probe(prepared)
        probe(ready(f"{server.url}/gate/v2/models/m?key=1"))
        assert "401 Unauthorized: no key; give credentials with --header" in refusal(f"{server.url}/gate/v2/models/m")
        told = refusal(f"{server.url}/gate/v2/models/n", headers=("Authorization: Bearer key",))
        assert "the server has m; name one with --model" in told


def test_a_server_whose_metadata_nobody_tells() -> None:
    with foreign_server(lambda asked: Told(200, {}) if asked.path.endswith("infer") else Told(404)) as server:
        with pytest.raises(ConfigurationError, match="does not tell its inputs; give whole requests in JSON"):
            ready(f"{server.url}/v2/models/m")
        body = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}'
        probe(ready(f"{server.url}/v2/models/m", body=body))
        with pytest.raises(ConfigurationError, match="does not list its models; name one with --model"):
            ready(f"{server.url}/v2")


def kserve_v1(asked: Asked) -> Told:
    match asked.path:
        case "/v1/models":
            return Told(200, {"models": ["m"]})
        case "/v1/models/m:predict":
            return Told(200, {"predictions": asked.json["instances"]})
    return Told(404, {"error": "no such route"})


def test_a_server_of_predict_without_documents(tmp_path: Path) -> None:
    samples = tmp_path / "rows.jsonl"
    samples.write_text('{"instances":[[1,2]]}\n{"instances":[[3,4]]}\n')
    with foreign_server(kserve_v1) as server:
        with pytest.raises(ConfigurationError, match="does not tell its inputs"):
            ready(server.url, protocol="predict")
        prepared = ready(server.url, protocol="predict", data=str(samples))
        assert (prepared.target.model, len(prepared.payloads)) == ("m", 2)
        probe(prepared)
        assert server.asked[-1].json == {"instances": [[1, 2]]}


def test_a_plain_server_is_measured_as_one() -> None:
    with foreign_server(lambda asked: Told(200, b"ok") if asked.path == "/" else Told(404)) as server:
        prepared = ready(server.url)
        assert prepared.target.protocol == "http"
        assert "GET /v2 is not answered" in prepared.notes[0]
        answer = probe(prepared)
        assert (answer.server, answer.body_bytes) == ("Foreign/2", 2)
        assert server.asked[-1].method == "GET"


def torchserve(asked: Asked) -> Told:
    if asked.path != "/predictions/net":
        return Told(404, {"code": 404, "type": "ModelNotFoundException", "message": "Model not found"})
    return Told(200, {"label": len(asked.body)})


def test_a_server_of_files_such_as_torchserve(tmp_path: Path) -> None:
    (tmp_path / "cat.jpg").write_bytes(b"\xff\xd8cat")
    with foreign_server(torchserve) as server:
        prepared = ready(f"{server.url}/predictions/net", data=str(tmp_path / "cat.jpg"), expect='"label": ?5')
        probe(prepared)
        assert (server.asked[-1].method, server.asked[-1].headers["content-type"]) == ("POST", "image/jpeg")
        assert "404 Not Found: Model not found; check the path" in refusal(f"{server.url}/predictions/no", body="x")
        told = refusal(f"{server.url}/predictions/net", body="x", expect="label.*7")
        assert "does not hold 'label.*7' (--expect); it begins with '{\"label\":1}'" in told


FASTAPI = {
    "openapi": "3.1.0",
    "paths": {
        "/score": {
            "post": {
                "operationId": "score_score_post",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}}},
            }
        }
    },
    "components": {
        "schemas": {
            "Item": {
                "type": "object",
                "properties": {"features": {"type": "array", "items": {"type": "number"}}, "note": {"type": "string"}},
                "required": ["features"],
            }
        }
    },
}


def fastapi_like(asked: Asked) -> Told:
    match asked.path, asked.method:
        case "/openapi.json", "GET":
            return Told(200, FASTAPI)
        case "/score", "POST":
            if "features" in asked.json:
                return Told(200, {"score": 0.5})
            return Told(422, {"detail": [{"loc": ["body", "features"], "msg": "Field required", "type": "missing"}]})
    return Told(405, {"detail": "Method Not Allowed"}, {"Allow": "POST"})


def test_an_application_with_an_openapi_document() -> None:
    with foreign_server(fastapi_like) as server:
        prepared = prepare(TargetQuestion(openapi=f"{server.url}/openapi.json"))
        probe(prepared)
        assert server.asked[-1].json == {"features": [0.5]}
        assert "422 Unprocessable" in (told := refusal(f"{server.url}/score", body="{}"))
        assert "body.features: Field required; correct the data" in told
        assert "use --method POST" in refusal(f"{server.url}/score")


def sse(*events: object) -> bytes:
    return b"".join(b"data: %b\n\n" % (one if isinstance(one, bytes) else orjson.dumps(one)) for one in events)


def piece(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


STREAMS = {
    "good": sse(piece("a"), piece("b"), b"[DONE]"),
    "cut": sse(piece("a")),
    "broken": sse(piece("a"), {"error": {"message": "out of memory"}}, b"[DONE]"),
    "silent": sse(piece(""), b"[DONE]"),
}


def openai_like(asked: Asked) -> Told:
    if asked.path == "/v1/models":
        return Told(200, {"object": "list", "data": [{"id": "good"}]})
    if not asked.json.get("stream"):
        return Told(200, {"choices": [{"message": {"content": "whole"}}]})
    model = asked.json["model"]
    return Told(200, STREAMS[model], {"Content-Type": "text/event-stream"}) if model in STREAMS else Told(200, {})


def test_streams_of_chats(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("hello\n")
    with foreign_server(openai_like) as server:
        url = f"{server.url}/v1/chat/completions"
        prepared = ready(url)
        assert prepared.target.model == "good"
        probe(prepared)
        probe(ready(url, data=str(prompts)))
        assert server.asked[-1].json["messages"] == [{"role": "user", "content": "hello"}]
        assert "ends without [DONE]" in refusal(url, model="cut")
        assert "the stream holds an error" in refusal(url, model="broken")
        assert "the stream brings no text" in refusal(url, model="silent")
        assert "no event stream came but application/json" in refusal(url, model="json")
        probe(ready(url, model="json", body='{"stream": false}', expect="whole"))
        probe(ready(server.url, protocol="openai-chat", model="good"))


def test_redirects_are_named_and_not_followed() -> None:
    with foreign_server(lambda asked: Told(307, headers={"Location": "https://elsewhere/x"})) as server:
        assert "307, redirects to https://elsewhere/x; measure that URL" in refusal(f"{server.url}/x")
        assert "307, redirects to https://elsewhere/x" in refusal(f"{server.url}/v2/models/m")
        assert len(server.asked) == 2


def test_a_server_that_is_not_ready_is_waited_for() -> None:
    asked: list[str] = []

    def late(request: Asked) -> Told:
        asked.append(request.path)
        return Told(200) if len(asked) > 8 else Told(503, {"error": "loading"})

    with foreign_server(late) as server:
        assert "503 Service Unavailable: loading; wait until it is ready, --wait-ready" in refusal(f"{server.url}/p")
        probe(ready(f"{server.url}/p"), wait_ready_s=10.0)
        assert len(asked) == 9


def test_a_server_that_is_not_there_yet_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    told = refusal(f"http://127.0.0.1:{port}/v2/models/m")
    assert told.startswith(f"127.0.0.1:{port}: connection refused, nothing listens there; start the server")
    assert "connection refused" in refusal(f"grpc://127.0.0.1:{port}/m")
    done = threading.Event()

    def serve_late() -> None:
        with socket.create_server(("127.0.0.1", port)) as listener:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            done.set()

    timer = threading.Timer(0.2, serve_late)
    timer.start()
    try:
        assert probe(ready(f"http://127.0.0.1:{port}/p"), wait_ready_s=10.0).body_bytes == 2
        assert done.wait(5.0)
    finally:
        timer.join()


# Connections that fail


def test_a_host_that_is_not_there() -> None:
    assert "no-such-host.invalid: no such host" in refusal("http://no-such-host.invalid/p")


@pytest.fixture
def raw() -> Iterator[Callable[[bytes], str]]:
    """A listener that answers whatever comes with these bytes and ends; its URL."""
    listeners: list[socket.socket] = []

    def start(answer: bytes, *, stays: bool = False) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.settimeout(5.0)
                try:
                    connection.recv(65_536)
                    connection.sendall(answer)
                    while stays and connection.recv(65_536):
                        pass
                except OSError:
                    pass
                connection.close()

        threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/p"

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (b"", "closed the connection without an answer"),
        (b"hello\r\n\r\n", "no answer in HTTP/1.1, it begins with 'hello"),
        (b"SSH-2.0-OpenSSH_9.0\r\n", "is this the port of an HTTP server"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "closed before the answer ended"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "closed before the answer ended"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no answer in HTTP/1.1|before the answer"),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\r\n", "HTTP/2 alone here; if it is gRPC, write grpc://"),
        (b"\x15\x03\x03\x00\x02\x02\x16", "speaks TLS here; write https://"),
    ],
)
def test_answers_that_are_none(raw: Callable[[bytes], str], answer: bytes, named: str) -> None:
    with pytest.raises(TargetRefused, match=named):
        probe(ready(raw(answer)))


def test_a_server_that_takes_too_long(raw: Callable[..., str]) -> None:
    prepared = ready(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na", stays=True))
    with pytest.raises(TargetRefused, match=r"no complete answer within 0\.2 s; raise --timeout"):
        probe(prepared, timeout_s=0.2)


def test_tls_that_fails_says_why_and_what_helps(certificate: Certificate, models: Path) -> None:
    ca_file = str(certificate.file)
    elsewhere = make_certificate(models, "elsewhere.example")
    with foreign_server(lambda asked: Told(200, b"ok"), certificate) as server:
        told = refusal(f"{server.url}/p")
        assert "its certificate is not trusted" in told
        assert "--ca-file, or use --insecure" in told
        probe(ready(f"{server.url}/p", ca_file=ca_file))
        probe(ready(f"{server.url}/p", insecure=True))
        assert "its certificate is not for localhost" in refusal(f"https://localhost:{server.port}/p", ca_file=ca_file)
        assert f"speaks TLS here; write https://127.0.0.1:{server.port}" in refusal(f"http://127.0.0.1:{server.port}/p")
        assert "not trusted" in refusal(f"{server.url}/p", ca_file=str(elsewhere.file))


def test_a_certificate_that_has_expired(models: Path) -> None:
    old = make_certificate(models, "localhost", is_expired=True)
    with foreign_server(lambda asked: Told(200, b"ok"), old) as server:
        url = f"https://localhost:{server.port}/p"
        assert "its certificate has expired" in refusal(url, ca_file=str(old.file))
        probe(ready(url, insecure=True))


def test_grpc_over_tls(certificate: Certificate) -> None:
    metadata = message_class("inference.ModelMetadataResponse")(name="m", versions=["1"])
    metadata.inputs.add(name="x", datatype="FP32", shape=[-1, 2])
    seen: list[dict[str, str]] = []

    def infer(message: bytes, context: Any) -> bytes:
        seen.append(dict(context.invocation_metadata()))
        return b""

    service = "/inference.GRPCInferenceService"
    methods = {
        f"{service}/ModelMetadata": lambda message, context: metadata.SerializeToString(),
        f"{service}/ModelInfer": infer,
    }
    with foreign_grpc_server(methods, certificate) as port:
        url = f"grpcs://127.0.0.1:{port}/m"
        assert "its certificate is not trusted" in refusal(url)
        prepared = ready(url, ca_file=str(certificate.file), headers=("Authorization: Bearer t",))
        assert prepared.headers == (("authorization", "Bearer t"),)
        probe(prepared)
        assert seen[-1]["authorization"] == "Bearer t"
        probe(ready(url, insecure=True))
        probe(ready(f"grpcs://localhost:{port}/m", insecure=True))
        assert f"speaks TLS here; write grpcs://127.0.0.1:{port}" in refusal(f"grpc://127.0.0.1:{port}/m")
    with foreign_grpc_server({}, certificate) as port:
        told = refusal(f"grpcs://127.0.0.1:{port}/m", insecure=True)
        assert "gRPC UNIMPLEMENTED" in told
        assert "is this an inference server's gRPC port?" in told

"""Targets that cannot be measured: what the command says of each, and that it ends at once."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.bench_command import run_bench
from tests.services.known_behaviours import Dying, Redirecting, Sleep
from tests.services.known_servers import KnownServer

LOAD = ("--rate", "50", "--duration", "0.5s", "--warmup", "0s", "--no-self-test")
PLAIN = ("--protocol", "http", *LOAD)


def refusal(*arguments: str | Path, code: int = 1) -> str:
    """What stands on stderr, and nothing on stdout."""
    result = run_bench(*arguments)
    assert (result.code, result.stdout) == (code, ""), result.stderr
    assert result.stderr.startswith("guepard")
    return result.stderr


@pytest.fixture(scope="module")
def server(models: Path, serve: Serve) -> RunningServer:
    onnx_models.write_model(models / "same.onnx", onnx_models.double())
    return serve(f"same={models / 'same.onnx'}", f"other={models / 'same.onnx'}")


@pytest.fixture(scope="module")
def tls() -> Iterator[KnownServer]:
    with KnownServer(Sleep(ms=5), tls_names=("localhost",)) as server:
        yield server


# nothing is there


def test_nothing_listens_there() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # taken, and nobody listens
        said = refusal(f"http://127.0.0.1:{unheard.getsockname()[1]}/x", *PLAIN)
    assert "connection refused" in said
    assert "start the server or correct the port" in said


def test_a_host_that_does_not_exist() -> None:
    said = refusal("http://no-such-host.invalid/x", *PLAIN)
    assert "no-such-host.invalid: no such host" in said
    assert "check the name" in said


def test_a_server_that_answers_nothing_is_not_waited_for_longer_than_asked() -> None:
    with KnownServer(Dying(after_s=0.0, ending="silence", ms=60_000)) as server:
        said = refusal(server.url, *PLAIN, "--timeout", "0.5s")
    assert "no complete answer within 0.5 s" in said
    assert "--timeout" in said


# TLS


def test_a_certificate_that_nobody_trusts(tls: KnownServer) -> None:
    said = refusal(tls.url, *PLAIN)
    assert "certificate is not trusted" in said
    assert "--ca-file" in said
    assert "--insecure" in said


def test_a_certificate_that_is_trusted_on_request(tls: KnownServer) -> None:
    run = run_bench(tls.url, *PLAIN, "--ca-file", tls.ca_file, "--json").run
    assert (run.failed, run.errors) == (0, ())
    assert run.succeeded > 10
    assert run.generator.tls is not None
    assert run.generator.tls.count == run.generator.connections_opened > 0


def test_http_to_a_port_that_speaks_tls(tls: KnownServer) -> None:
    said = refusal(f"http://localhost:{tls.port}/", *PLAIN)
    assert f"speaks TLS here; write https://localhost:{tls.port}" in said


# answers that are none


def test_a_redirect_is_not_followed_and_names_its_location() -> None:
    with KnownServer(Redirecting(location="http://127.0.0.1:9/elsewhere")) as server:
        said = refusal(server.url, *PLAIN)
    assert "307" in said
    assert "redirects to http://127.0.0.1:9/elsewhere" in said


def test_an_answer_that_lacks_what_is_expected() -> None:
    with KnownServer(Sleep()) as server:
        said = refusal(server.url, *PLAIN, "--expect", '"predictions"')
    assert "does not hold" in said
    assert "--expect" in said
    assert "ok" in said


# a real server that refuses


def test_a_shape_that_the_model_does_not_take(server: RunningServer) -> None:
    said = refusal(f"{server.url}/v2/models/same", *LOAD, "--shape", "x:2,5", code=2)
    assert "--shape" in said
    assert re.search(r"\b4\b", said), "the model's own dimension is named"


def test_data_that_the_model_does_not_take(server: RunningServer, tmp_path: Path) -> None:
    bad = {"inputs": [{"name": "x", "shape": [1, 5], "datatype": "FP32", "data": [1, 2, 3, 4, 5]}]}
    body = tmp_path / "bad.json"
    body.write_text(json.dumps(bad))
    url = f"{server.url}/v2/models/same/infer"
    said = refusal("--curl", f"curl {url} -H 'content-type: application/json' -d @{body}", *LOAD)
    assert "400" in said
    assert "x" in said


def test_a_model_that_is_not_there_lists_those_that_are(server: RunningServer) -> None:
    said = refusal(server.url, "--model", "absent", *LOAD)
    assert "absent" in said
    assert "same" in said
    assert "other" in said
    assert "--model" in said


def test_mistakes_in_the_command_are_wrong_usage() -> None:
    said = refusal("http://127.0.0.1:9/", "--rate", "5", "--concurrency", "5", code=2)
    assert "--rate" in said
    assert "--concurrency" in said

"""The scripts in examples/clients do against a real server what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve

CLIENTS = Path("examples/clients")
ANSWER = "label [0] probabilities [0.9995, 0.0005]"


@pytest.fixture(scope="module")
def server(serve: Serve) -> RunningServer:
    return serve(Path("examples/model_repository/breast_cancer"))


@pytest.mark.parametrize(
    ("script", "port", "expected"),
    [
        ("with_requests.py", "http", ANSWER),
        ("with_httpx.py", "http", "200 answers, labels [0]"),
        ("with_tritonclient_http.py", "http", f"64 answers, {ANSWER}"),
        ("with_tritonclient_grpc.py", "grpc", ANSWER),
    ],
)
def test_a_client(server: RunningServer, script: str, port: str, expected: str) -> None:
    address = server.grpc_address if port == "grpc" else server.address
    where = server.url if script in ("with_requests.py", "with_httpx.py") else address
    run = subprocess.run(
        [sys.executable, CLIENTS / script, where], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[0] == expected


def test_every_script_is_run_here() -> None:
    assert len(list(CLIENTS.glob("*.py"))) == 4


@pytest.mark.parametrize("script", ["with_requests.py", "with_httpx.py"])
def test_a_refusal_ends_a_script_with_the_reason(serve: Serve, script: str, tmp_path: Path) -> None:
    """The model is not there: no traceback hides why."""
    (tmp_path / "guepard.yaml").write_text(
        "models: [{name: other, backend: identity, inputs: [{name: x, datatype: FP32, dims: [1]}]}]"
    )
    server = serve(cwd=tmp_path)
    run = subprocess.run(
        [sys.executable, CLIENTS / script, server.url], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 1
    assert "404" in run.stderr

"""Models, names and bodies from people who mean harm: all of it stays data.

Left to later parts: the same over gRPC and between processes, ensembles, optimize and doctor, and archives and upstream
URLs that are taken (both are refused here).
"""

import io
import os
import pickle
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.onnx_models import EXTERNAL_WEIGHTS, identity, write_model
from tests.services.raw_http import RawClient, infer, message, values_of
from tests.services.serve_command import run_serve

MARKER = "GUEPARD_TEST_CANARY"

PYTHON_MODEL = f"""
import os
from pathlib import Path
import guepard

Path(os.environ["{MARKER}"]).touch()

class Model(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [1])]
    outputs = [guepard.Tensor("y", "FP32", [1])]

    def predict(self, inputs, ctx):
        return {{"y": inputs["x"]}}
"""

OUTSIDE = [
    "../../secret.bin",
    "{root}/secret.bin",
    "sub/../../../secret.bin",
    "..\\secret.bin",
    "file://{root}/secret.bin",
    "link.bin",
]


class Workshop:
    """A repository in which nearly everything is meant to do harm, and the file that harm would leave behind."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repository = root / "repository"
        self.canary = root / "canary"
        write_model(self.repository / "ident" / "1", identity("FP32", ["n", "m"]))
        (root / "secret.bin").write_bytes(EXTERNAL_WEIGHTS.tobytes())
        for number, location in enumerate(OUTSIDE):
            self._outside(f"outside{number}", location.format(root=root))
        self._file("code", "model.py", PYTHON_MODEL.encode())
        self._file("pickled", "model.pkl", pickle.dumps(Canary(self.canary)))
        self._file("torch", "model.pt", pickle.dumps(Canary(self.canary)))
        self._file("zipped", "model.zip", zipped())
        self._file("disguised", "model.onnx", pickle.dumps(Canary(self.canary)))
        self._file("zip_as_onnx", "model.onnx", zipped())

    def _outside(self, name: str, location: str) -> None:
        folder = self.repository / name / "1"
        write_model(folder, onnx_models.external_initializer(location))
        if location == "link.bin":
            (folder / location).symlink_to(self.root / "secret.bin")

    def _file(self, name: str, file: str, content: bytes) -> None:
        folder = self.repository / name / "1"
        folder.mkdir(parents=True)
        (folder / file).write_bytes(content)


class Canary:
    """Unpickling an instance creates the file at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.open, (str(self.path), os.O_CREAT | os.O_WRONLY)


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../../evil.txt", "evil")
        archive.writestr("1/model.onnx", identity())
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../evil.txt"))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="module")
def server(serve: Serve, workshop: Workshop) -> RunningServer:
    return serve(
        *("--model-repository", workshop.repository),
        *("--model-control-mode", "explicit", "--load-model", "ident"),
        "echo=tests/services/python_models.py:EchoBytes",
        *("--load-model", "echo"),
        env={MARKER: str(workshop.canary)},
    )


def load(server: RunningServer, name: str) -> Answer:
    return server.request("POST", f"/v2/repository/models/{name}/load", b"{}")


def index(server: RunningServer) -> dict[str, dict[str, str]]:
    return {entry["name"]: entry for entry in server.request("POST", "/v2/repository/index", b"").json}


def assert_unharmed(server: RunningServer, workshop: Workshop) -> None:
    assert not workshop.canary.exists()
    assert not list(workshop.root.rglob("evil.txt"))
    assert server.process.poll() is None
    with RawClient(server.http_port) as client:
        assert values_of(client.ask(infer([2.5]))) == [2.5]


# What lies in a repository


@pytest.mark.parametrize("number", range(len(OUTSIDE)))
def test_a_model_cannot_have_a_file_outside_its_folder_read(
    server: RunningServer, workshop: Workshop, number: int
) -> None:
    """onnx/onnx#3991. The file is there and would make a working model."""
    name = f"outside{number}"
    answer = load(server, name)
    assert (answer.status, answer.json["code"]) == (503, "not_ready")
    assert "its folder" in answer.json["error"]
    entry = index(server)[name]
    assert entry["state"] == "UNAVAILABLE"
    assert "its folder" in entry["reason"]
    assert server.request("GET", f"/v2/models/{name}/ready").status == 503
    assert_unharmed(server, workshop)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("code", "trust"),
        ("pickled", "pickle"),
        ("torch", "pickled"),
        ("zipped", "no model"),
        ("disguised", "ONNX"),
        ("zip_as_onnx", "ONNX"),
    ],
)
def test_code_pickles_and_archives_in_a_repository_do_not_load(
    server: RunningServer, workshop: Workshop, name: str, reason: str
) -> None:
    for _ in range(2):
        answer = load(server, name)
        assert answer.status == 503
        assert reason in answer.json["error"]
        assert str(workshop.root) not in answer.json["error"]
    assert reason in index(server)[name]["reason"]
    assert_unharmed(server, workshop)


@pytest.mark.parametrize("parameters", [{"trust": True}, {"backend": "python"}, {"path": "/tmp"}, {"model.py": "x"}])
def test_the_api_cannot_grant_trust(server: RunningServer, workshop: Workshop, parameters: dict[str, Any]) -> None:
    answer = server.request("POST", "/v2/repository/models/code/load", {"parameters": parameters, **parameters})
    assert answer.status >= 400
    assert_unharmed(server, workshop)


def test_trust_is_given_by_the_operator(workshop: Workshop) -> None:
    canary = workshop.root / "trusted"
    with RunningServer(f"code={workshop.repository / 'code'}", "--trust", env={MARKER: str(canary)}) as server:
        assert server.request("GET", "/v2/models/code/ready").status == 200
        assert canary.exists()


# Names

NAMES = [
    *("..", ".", "../ident", "../../secret.bin", "a/b", "ident/1", "\\..\\x", "C:\\x", "/etc/passwd", ".hidden", "_x"),
    *(
        "ident\0b",
        "ident\n",
        " ",
        "ident ",
        "a b",
        "é",
        "ident\u200b",
        "%2e%2e",
        "..%2f",
        "$(id)",
        "ident;x",
        "~",
        "-x",
    ),
    *("x" * 129, "x" * 300, "ident:1", "ident?x", "ident#x", "nul\x7f", '"', "<script>"),
]
ROUTES = [
    ("POST", "/v2/models/{}/infer"),
    ("POST", "/v2/models/{}/versions/1/infer"),
    ("GET", "/v2/models/{}"),
    ("GET", "/v2/models/{}/ready"),
    ("GET", "/v2/models/{}/config"),
    ("GET", "/v2/models/{}/stats"),
    ("GET", "/v2/models/{}/versions/1"),
    ("POST", "/v2/repository/models/{}/load"),
    ("POST", "/v2/repository/models/{}/unload"),
]


@pytest.mark.parametrize(("method", "template"), ROUTES)
def test_names_that_no_model_can_have_are_refused_alike(server: RunningServer, method: str, template: str) -> None:
    """triton-inference-server/core PR#500: the text may not tell whether there is something at the place named."""
    texts = set()
    with RawClient(server.http_port) as client:
        for name in NAMES:
            answer = client.ask(
                message(method, template.format(quote(name, safe="")), b"{}" if method == "POST" else None)
            )
            assert (answer.status, answer.json["code"]) == (400, "invalid_argument"), name
            before, shown, after = answer.json["error"].partition(" is not valid: ")
            assert shown
            assert before.startswith("model name ")
            texts.add(after)
    assert len(texts) == 1


@pytest.mark.parametrize(("method", "template"), ROUTES)
@pytest.mark.parametrize(
    "name", ["", "a/b", "../ident", "..", ".", "%252e%252e", "%00", "%ff", "%", "%zz", "..;", "..%5c", "%2E%2E%2Fident"]
)
def test_names_as_they_stand_lead_nowhere(server: RunningServer, method: str, template: str, name: str) -> None:
    """Dots are never resolved and escapes only once, so that nothing but the route's own model can be meant."""
    with RawClient(server.http_port) as client:
        answer = client.ask(message(method, template.format(name), b"{}" if method == "POST" else None))
        assert answer.status in (400, 404, 405)


@pytest.mark.parametrize("version", ["..", "../1", "1/..", "01", "+1", "1 ", "-1", "0", "9" * 30, "1%00", "%31%2f"])
def test_versions_are_only_looked_up(server: RunningServer, version: str) -> None:
    with RawClient(server.http_port) as client:
        for text in (quote(version, safe="%"), quote(version, safe="")):
            assert client.ask(message("GET", f"/v2/models/ident/versions/{text}")).status in (400, 404)


def test_an_escaped_name_is_the_same_model(server: RunningServer) -> None:
    assert server.request("GET", "/v2/models/%69dent/ready").status == 200


# Bodies


@pytest.mark.parametrize(
    "media_type",
    [
        "application/vnd.bentoml+pickle",
        "application/python-pickle",
        "application/x-cloudpickle",
        "application/x-pickle",
        "application/x-numpy",
        "application/octet-stream; pickle",
        "application/octet-stream",
        "application/json",
        "application/x-www-form-urlencoded",
        None,
    ],
)
def test_no_content_type_has_a_body_unpickled(
    server: RunningServer, workshop: Workshop, media_type: str | None
) -> None:
    """bentoml/BentoML PR#5610, CVE-2025-27520, CVE-2025-32375."""
    payload = pickle.dumps(Canary(workshop.canary))
    headers = [f"Content-Type: {media_type}"] if media_type else []
    for path in (
        "/v2/models/echo/infer",
        "/v2/models/ident/infer",
        "/v2/repository/models/code/load",
        "/v2/repository/index",
    ):
        with RawClient(server.http_port) as client:
            assert client.ask(message("POST", path, payload, headers)).status in (400, 415)
            lengths = [*headers, f"Inference-Header-Content-Length: {len(payload)}"]
            assert client.ask(message("POST", path, payload, lengths)).status in (400, 415)
    with RawClient(server.metrics_port) as client:
        assert client.ask(message("POST", "/metrics", payload, headers)).status == 405
    for port in (server.http_port, server.metrics_port):
        with RawClient(port) as client:
            client.send(payload)
            client.finish_sending()
            client.rest()
    assert_unharmed(server, workshop)


def objects_file(canary: Path) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Canary(canary)], object), allow_pickle=True)
    return buffer.getvalue()


def test_pickles_inside_a_tensor_arrive_as_the_bytes_they_are(server: RunningServer, workshop: Workshop) -> None:
    for payload in (pickle.dumps(Canary(workshop.canary)), objects_file(workshop.canary)):
        with RawClient(server.http_port) as client:
            answer = client.ask(
                message("POST", "/v2/models/echo/infer", payload, ["Inference-Header-Content-Length: 0"])
            )
            assert answer.status == 200
            size = int(answer.headers["inference-header-content-length"])
            assert answer.body[size:] == len(payload).to_bytes(4, "little") + payload
    assert_unharmed(server, workshop)


def test_nothing_but_its_ports_listens(server: RunningServer) -> None:
    """No worker channel is there to be spoken to."""
    process = Path(f"/proc/{server.process.pid}")
    inodes = set()
    for descriptor in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            inodes.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    listening = set()
    for table in ("tcp", "tcp6"):
        for line in (process / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                listening.add(int(fields[1].rpartition(":")[2], 16))
    assert listening == {server.http_port, server.grpc_port, server.metrics_port}
    unix = [line.split() for line in (process / "net" / "unix").read_text().splitlines()[1:]]
    assert not [fields for fields in unix if fields[6] in inodes and fields[3] == "00010000"]


# What the operator names


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("model.zip", zipped(), "archive"),
        ("model.tar.gz", tarred(), "archive"),
        ("model.mar", zipped(), "archive"),
        ("model.onnx", zipped(), "archive"),
        ("model.onnx", tarred(), "archive"),
        ("model.h5", b"\x89HDF", "not served"),
        ("model.plan", zipped(), "archive"),
    ],
)
def test_archives_and_pickles_on_the_command_line_are_refused(
    tmp_path: Path, file: str, content: bytes, expected: str
) -> None:
    (tmp_path / file).write_bytes(content)
    refused = start(tmp_path / file)
    assert refused.returncode == 2
    assert expected in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "https://models.example/model.onnx",
        "grpc://127.0.0.1:8001",
        "file:///etc/passwd",
        "ftp://models.example/x",
        "s3://bucket/model",
        "HTTP://127.0.0.1",
        "m=http://127.0.0.1:8000",
    ],
)
def test_upstreams_are_refused(tmp_path: Path, url: str) -> None:
    refused = start(url)
    assert refused.returncode == 2
    assert "upstream" in refused.stderr


def start(model: str | Path) -> subprocess.CompletedProcess[str]:
    """What `guepard serve` says before it ends by itself."""
    return run_serve(str(model))

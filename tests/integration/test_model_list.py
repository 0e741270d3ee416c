"""`/v1/models` and what stands behind each name there, while models load, serve, fail and go."""

from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    onnx_models.write_model(models / "double.onnx", onnx_models.double(2))
    (models / "broken.onnx").write_bytes(b"nothing")
    entries: list[dict[str, Any]] = [
        {"name": "double", "path": "double.onnx"},
        {"name": "gone", "path": "double.onnx"},
        {"name": "broken", "path": "broken.onnx"},
        {"name": "loading", "path": f"{PYTHON_MODELS}:NeverLoaded", "backend": "python", "trust": True},
    ]
    (models / "guepard.yaml").write_text(yaml.safe_dump({"models": entries}))
    explicit = ["--model-control-mode", "explicit"]
    server = serve("--config", models / "guepard.yaml", *explicit, "--load-model", "double", "--load-model", "gone")
    assert server.request("POST", "/v2/repository/models/gone/unload").status == 200
    assert server.request("POST", "/v2/repository/models/broken/load").status == 503
    with pytest.raises(requests.ReadTimeout):
        requests.post(f"{server.url}/v2/repository/models/loading/load", timeout=0.2)
    return server


def test_the_list_has_what_serves(server: RunningServer) -> None:
    document = server.request("GET", "/v1/models").json
    (card,) = document.pop("data")
    assert document == {"object": "list", "models": ["double"]}
    assert (card["id"], card["object"], card["owned_by"]) == ("double", "model", "guepard")
    date = server.request("GET", "/v1/models").headers["date"]
    # The Date line is renewed once a second, so it may be as old as that.
    assert -1 <= parsedate_to_datetime(date).timestamp() - card["created"] < 60


@pytest.mark.parametrize("path", ["double", "double/versions/1"])
def test_a_model_that_serves(server: RunningServer, path: str) -> None:
    answer = server.request("GET", f"/v1/models/{path}")
    assert answer.status == 200
    document = answer.json
    assert document.pop("created") > 1_700_000_000
    assert document == {
        "id": "double",
        "object": "model",
        "owned_by": "guepard",
        "name": "double",
        "ready": True,
        "model_version_status": [
            {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        ],
    }


@pytest.mark.parametrize(
    ("name", "state", "code", "text"),
    [
        ("gone", "END", "UNAVAILABLE", "unloaded"),
        ("broken", "END", "UNAVAILABLE", "not a valid ONNX model"),
        ("loading", "LOADING", "OK", "loading"),
    ],
)
def test_a_model_that_is_known_and_does_not_serve(
    server: RunningServer, name: str, state: str, code: str, text: str
) -> None:
    for path in (name, f"{name}/versions/1"):
        answer = server.request("GET", f"/v1/models/{path}")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        document = answer.json
        assert (document["id"], document["name"], document["ready"], document["created"]) == (name, name, False, 0)
        (version,) = document["model_version_status"]
        assert (version["version"], version["state"], version["status"]["error_code"]) == ("1", state, code)
        assert text in document["error"]
        assert document["code"] == "not_ready"
    assert server.request("GET", f"/v1/models/{name}/metadata").status == 503
    assert server.request("POST", f"/v1/models/{name}:predict", {"instances": [[1, 2]]}).status == 503


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nobody", 404),
        ("nobody/versions/1", 404),
        ("nobody/metadata", 404),
        ("double/versions/2", 404),
        ("double/versions/01", 404),
        ("double/versions/2/metadata", 404),
        ("double/labels/stable", 404),
        ("double/labels/stable/metadata", 404),
        ("..", 400),
        ("double/", 404),
        ("double:predict", 405),
    ],
)
def test_what_is_not_there(server: RunningServer, path: str, status: int) -> None:
    answer = server.request("GET", f"/v1/models/{path}")
    assert (answer.status, bool(answer.json["error"])) == (status, True)


def test_the_signature(server: RunningServer) -> None:
    document = server.request("GET", "/v1/models/double/metadata").json
    assert document["model_spec"] == {"name": "double", "signature_name": "", "version": "1"}
    signature = document["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert [dim["size"] for dim in signature["inputs"]["x"]["tensor_shape"]["dim"]] == ["-1", "2"]
    assert signature["outputs"].keys() == {"y"}


def test_web_pages_and_strangers_may_ask(server: RunningServer) -> None:
    foreign = {"Origin": "http://example.test", "Host": "models.example.test", "Sec-Fetch-Site": "cross-site"}
    for path in ("/v1/models", "/v1/models/double", "/v1/models/double/metadata"):
        assert server.request("GET", path, headers=foreign).status == 200
    assert server.request("HEAD", "/v1/models/double").body == b""


def test_a_reload_that_fails_leaves_it_available(server: RunningServer, models: Path) -> None:
    file = models / "double.onnx"
    sound = file.read_bytes()
    try:
        file.write_bytes(b"nothing")
        assert server.request("POST", "/v2/repository/models/double/load").status == 503
    finally:
        file.write_bytes(sound)
    assert server.request("GET", "/v1/models/double").json["model_version_status"][0]["state"] == "AVAILABLE"

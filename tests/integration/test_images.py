"""An image classifier that is sent files and answers labels, as docs/how-to/preprocess-and-postprocess.md has it."""

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import yaml

import guepard
from guepard.core.errors import InputError
from guepard.testing.running_server import RunningServer
from tests.services.grpc_calls import call, infer_message
from tests.services.image_files import Pixels, encoded
from tests.services.image_model import COLOURS, write_classifier

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "preprocess-and-postprocess.md"


def block(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def photo(colour: str, height: int = 300, width: int = 400) -> bytes:
    return encoded(plain(colour, height, width), "JPEG")


def plain(colour: str, height: int, width: int) -> Pixels:
    return np.broadcast_to(np.array(COLOURS[colour], np.uint8), (height, width, 3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's own lines work."""
    folder = tmp_path_factory.mktemp("images")
    write_classifier(folder / "models" / "resnet")
    (text,) = block("yaml")
    (folder / "guepard.yaml").write_text(text)
    (folder / "photo.jpg").write_bytes(photo("green"))
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    with RunningServer(cwd=folder) as running:
        yield running


@pytest.fixture(scope="module")
def steps(folder: Path) -> dict[str, Any]:
    (model,) = yaml.safe_load((folder / "guepard.yaml").read_text())["models"]
    return {field: model[field] for field in ("preprocess", "postprocess")}


def test_callers_see_files_and_labels(server: RunningServer) -> None:
    metadata = server.request("GET", "/v2/models/resnet").json
    assert metadata["inputs"] == [{"name": "image", "datatype": "BYTES", "shape": [-1]}]
    assert [(output["name"], output["datatype"]) for output in metadata["outputs"]] == [
        ("scores", "FP32"),
        ("indices", "INT64"),
        ("labels", "BYTES"),
    ]
    hooks = server.request("GET", "/v2/models/resnet/config").json["guepard"]["hooks"]
    assert hooks == {
        "preprocess": ["decode_image", "resize", "normalize"],
        "postprocess": ["softmax", "top_k", "labels"],
        "model_input": [{"name": "pixel_values", "data_type": "TYPE_FP32", "dims": [3, 224, 224]}],
    }


def test_the_question_that_a_newcomer_is_given_has_an_answer(server: RunningServer) -> None:
    example = server.request("GET", "/openapi.json").json["components"]["examples"]["resnet"]["value"]
    assert example["inputs"][0]["data"][0].startswith("iVBOR")
    assert server.request("POST", "/v2/models/resnet/infer", example).status == 200


@pytest.mark.parametrize("number", range(len(block("sh"))))
def test_the_page_s_own_commands(server: RunningServer, folder: Path, number: int) -> None:
    command = block("sh")[number].replace("localhost:8000", server.address)
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=30, check=True)
    answer = json.loads(done.stdout)
    if "outputs" in answer:
        (labels,) = [output["data"] for output in answer["outputs"] if output["name"] == "labels"]
    else:
        labels = answer["predictions"][0]["labels"]
    assert labels[0] == "green"


def test_the_page_s_own_python(folder: Path) -> None:
    (code,) = block("python")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("[b'green' ")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "GIF"])
def test_over_http_as_binary_data(server: RunningServer, kind: str) -> None:
    colours = ["red", "cyan", "magenta"]
    files = [encoded(plain(colour, 30 + 10 * place, 40), kind) for place, colour in enumerate(colours)]
    client = tritonclient.http.InferenceServerClient(server.address)
    given = tritonclient.http.InferInput("image", [3], "BYTES")
    given.set_data_from_numpy(np.array(files, object))
    answer = client.infer("resnet", [given])
    assert answer.as_numpy("labels")[:, 0].tolist() == [colour.encode() for colour in colours]
    np.testing.assert_allclose(answer.as_numpy("scores").sum(1), 1, rtol=1e-2)


def test_over_http_as_the_whole_body(server: RunningServer) -> None:
    answer = server.request("POST", "/v2/models/resnet/infer", photo("cyan"), {"Inference-Header-Content-Length": "0"})
    assert answer.body.count(b"cyan") == 1


def test_over_http_in_json(server: RunningServer) -> None:
    text = base64.b64encode(photo("blue")).decode()
    tensor = {"name": "image", "datatype": "BYTES", "shape": [2], "data": [text, f"data:image/jpeg;base64,{text}"]}
    wanted = [{"name": "labels"}]
    answer = server.request("POST", "/v2/models/resnet/infer", {"inputs": [tensor], "outputs": wanted}).json
    assert answer["outputs"][0]["data"][::3] == ["blue", "blue"]


def test_on_predict_routes(server: RunningServer) -> None:
    rows = [{"b64": base64.b64encode(photo(colour)).decode()} for colour in ("yellow", "red")]
    predictions = server.request("POST", "/v1/models/resnet:predict", {"instances": rows}).json["predictions"]
    assert [prediction["labels"][0] for prediction in predictions] == ["yellow", "red"]
    columns = server.request("POST", "/v1/models/resnet:predict", {"inputs": {"image": rows}}).json
    assert [labels[0] for labels in columns["outputs"]["labels"]] == ["yellow", "red"]


def test_over_grpc(server: RunningServer) -> None:
    client = tritonclient.grpc.InferenceServerClient(server.grpc_address)
    given = tritonclient.grpc.InferInput("image", [2], "BYTES")
    given.set_data_from_numpy(np.array([photo("red"), photo("blue")], object))
    assert client.infer("resnet", [given]).as_numpy("labels")[:, 0].tolist() == [b"red", b"blue"]
    with grpc.insecure_channel(server.grpc_address) as channel:
        answer = call(channel, infer_message("resnet", "BYTES", [1], typed=[photo("cyan")], name="image")).infer
        assert b"cyan" in answer.raw_output_contents[2]


def test_in_a_program(folder: Path, steps: dict[str, Any]) -> None:
    with guepard.load(folder / "models" / "resnet", **steps) as model:

        async def ask() -> list[Any]:
            return await asyncio.gather(*[model.infer_async({"image": [photo(colour)]}) for colour in COLOURS])

        assert [answer["labels"][0, 0] for answer in asyncio.run(ask())] == [colour.encode() for colour in COLOURS]
        answer = model.infer({"image": [photo("red")]}, outputs=["indices"])
        assert list(answer) == ["indices"]
        with pytest.raises(InputError, match="input 'image': image 1 is empty: 0 bytes"):
            model.infer({"image": [photo("red"), b""]})


def test_a_broken_file_is_refused_by_its_number_and_the_others_are_answered(server: RunningServer) -> None:
    """Field case F160: by every road 400 with the image's number, and the server lives."""
    cut = photo("red")[:-9]
    rows = [{"b64": base64.b64encode(data).decode()} for data in (photo("red"), cut)]
    refused = server.request("POST", "/v1/models/resnet:predict", {"instances": rows})
    assert refused.status == 400
    assert "input 'image': image 1 is a JPEG that is cut off before its end" in refused.json["error"]
    with grpc.insecure_channel(server.grpc_address) as channel:
        answer = call(channel, infer_message("resnet", "BYTES", [1], typed=[b"<html>"], name="image"))
    assert (answer.code, "image 0 is no JPEG" in answer.details) == ("INVALID_ARGUMENT", True)
    test_over_http_in_json(server)


def test_each_step_is_timed_and_belongs_to_its_phase(server: RunningServer) -> None:
    answer = server.request(
        "POST", "/v1/models/resnet:predict", {"instances": [base64.b64encode(photo("red")).decode()]}
    )
    assert answer.status == 200
    page = server.request("GET", "/metrics", port=server.metrics_port).body.decode()
    counts = dict(
        re.findall(r'guepard_step_duration_seconds_count\{model="resnet",step="(\w+)",version="1"\} ([\d.]+)', page)
    )
    assert list(counts) == ["decode_image", "resize", "normalize", "softmax", "top_k", "labels"]
    assert all(float(count) >= 1 for count in counts.values())


def test_a_model_without_a_batch_takes_one_file_at_a_time(tmp_path: Path, steps: dict[str, Any]) -> None:
    folder = write_classifier(tmp_path)
    with guepard.load(folder, max_batch_size=0, **steps) as model:
        assert [spec.dims for spec in model.inputs] == [(-1,)]
        assert model.infer({"image": [photo("blue")]})["labels"][0, 0] == b"blue"

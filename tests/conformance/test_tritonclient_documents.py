"""Health, documents and repository through Triton's own Python client over HTTP, unmodified."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.http import InferenceServerClient, InferInput
from tritonclient.http import aio as triton_aio
from tritonclient.utils import InferenceServerException

from guepard import __version__
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    built = {
        "add": onnx_models.add("INT32", ("n", 2)),
        "two_outputs": onnx_models.two_outputs(),
        "text": onnx_models.identity("BYTES"),
        "counted": onnx_models.identity("INT8", ("n", 3)),
        "double": onnx_models.double(),
    }
    return serve(
        *[f"{name}={onnx_models.write_model(models / f'{name}.onnx', model)}" for name, model in built.items()]
    )


@pytest.fixture
def client(server: RunningServer) -> Iterator[InferenceServerClient]:
    with InferenceServerClient(server.address) as client:
        yield client


def given(array: NDArray[Any], datatype: str) -> InferInput:
    tensor = InferInput("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    return tensor


def test_health(client: InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("add")
    assert client.is_model_ready("add", "1")
    assert not client.is_model_ready("add", "2")
    assert not client.is_model_ready("unknown")


def test_server_metadata(client: InferenceServerClient) -> None:
    metadata = client.get_server_metadata()
    assert metadata.keys() == {"name", "version", "extensions"}
    assert (metadata["name"], metadata["version"]) == ("guepard", __version__)
    assert all(isinstance(extension, str) for extension in metadata["extensions"])


@pytest.mark.parametrize("version", ["", "1"])
def test_model_metadata(client: InferenceServerClient, version: str) -> None:
    assert client.get_model_metadata("two_outputs", version) == {
        "name": "two_outputs",
        "versions": ["1"],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "x", "datatype": "INT64", "shape": [-1, 4]}],
        "outputs": [
            {"name": "total", "datatype": "INT64", "shape": [-1]},
            {"name": "negated", "datatype": "INT64", "shape": [-1, 4]},
        ],
    }


@pytest.mark.parametrize("version", ["", "1"])
def test_model_config(client: InferenceServerClient, version: str) -> None:
    config = client.get_model_config("two_outputs", version)
    assert (config["name"], config["backend"], config["platform"]) == ("two_outputs", "onnxruntime", "onnxruntime_onnx")
    assert config["max_batch_size"] == 64
    assert config["input"] == [{"name": "x", "data_type": "TYPE_INT64", "dims": [4], "optional": False}]
    assert [(output["name"], output["data_type"], output["dims"]) for output in config["output"]] == [
        ("total", "TYPE_INT64", []),
        ("negated", "TYPE_INT64", [4]),
    ]
    assert config["dynamic_batching"]["max_queue_delay_microseconds"] == 0
    assert client.get_model_config("text")["input"][0]["data_type"] == "TYPE_STRING"
    assert "dynamic_batching" in config
    assert {group["kind"] for group in config["instance_group"]} == {"KIND_CPU"}


def test_statistics(client: InferenceServerClient) -> None:
    def one(version: str = "") -> Any:
        (statistics,) = client.get_inference_statistics("counted", version)["model_stats"]
        return statistics

    before = one()
    for _ in range(3):
        client.infer("counted", [given(np.zeros((2, 3), np.int8), "INT8")])
    with pytest.raises(InferenceServerException):
        client.infer("counted", [given(np.zeros((2, 3), np.int16), "INT16")])
    after = one("1")
    assert (after["name"], after["version"]) == ("counted", "1")
    assert after["inference_count"] - before["inference_count"] == 6
    assert after["execution_count"] - before["execution_count"] == 3
    assert after["last_inference"] > 1_600_000_000_000
    parts = {"success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"}
    assert after["inference_stats"].keys() == parts
    assert all(part.keys() == {"count", "ns"} for part in after["inference_stats"].values())
    grown = {name: after["inference_stats"][name]["count"] - before["inference_stats"][name]["count"] for name in parts}
    assert grown == dict.fromkeys(parts, 3) | {"fail": 1, "cache_hit": 0, "cache_miss": 0}
    (batch,) = [stat for stat in after["batch_stats"] if stat["batch_size"] == 2]
    assert batch.keys() == {"batch_size", "compute_input", "compute_infer", "compute_output"}
    assert batch["compute_infer"]["count"] >= 3
    everything = client.get_inference_statistics()["model_stats"]
    assert {"counted", "add", "text"} <= {statistics["name"] for statistics in everything}


# The repository


def test_repository(client: InferenceServerClient) -> None:
    def entry() -> Any:
        (found,) = [each for each in client.get_model_repository_index() if each["name"] == "double"]
        return found

    assert entry() == {"name": "double", "version": "1", "state": "READY", "reason": ""}
    client.unload_model("double")
    assert (entry()["state"], entry()["reason"]) == ("UNAVAILABLE", "unloaded")
    assert not client.is_model_ready("double")
    with pytest.raises(InferenceServerException, match="model 'double' is not ready") as caught:
        client.infer("double", [given(np.ones((1, 4), np.float32), "FP32")])
    assert caught.value.status() == "503"
    client.load_model("double")
    assert (entry()["state"], client.is_model_ready("double")) == ("READY", True)
    client.load_model("double")
    client.unload_model("double", unload_dependents=True)
    client.load_model("double")
    assert client.infer("double", [given(np.ones((1, 4), np.float32), "FP32")]).as_numpy("y").tolist() == [[2.0] * 4]


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        ({}, "404", "unknown model 'unknown'"),
        ({"config": '{"backend":"python"}'}, "403", "parameters.config: a client may not override"),
        ({"config": "{}", "files": {"file:1/model.py": b"import os"}}, "403", "a client may not override"),
    ],
)
def test_loads_that_are_refused(
    client: InferenceServerClient, arguments: dict[str, Any], status: str, reason: str
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("add" if arguments else "unknown", **arguments)
    assert caught.value.status() == status
    assert reason in caught.value.message()
    assert client.is_model_ready("add")


# The asyncio form


def test_all_of_it_by_asyncio(server: RunningServer) -> None:
    async def everything() -> None:
        async with triton_aio.InferenceServerClient(server.address) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("add", "1")
            assert not await client.is_model_ready("unknown")
            assert (await client.get_server_metadata())["name"] == "guepard"
            assert (await client.get_model_metadata("add"))["inputs"][1]["name"] == "b"
            assert (await client.get_model_config("add", "1"))["name"] == "add"
            assert (await client.get_inference_statistics("add"))["model_stats"][0]["version"] == "1"
            await client.unload_model("double")
            assert not await client.is_model_ready("double")
            await client.load_model("double")
            index = {entry["name"]: entry for entry in await client.get_model_repository_index()}
            assert index["double"]["state"] == "READY"
            with pytest.raises(InferenceServerException, match="unknown model 'unknown'"):
                await client.load_model("unknown")

    asyncio.run(everything())

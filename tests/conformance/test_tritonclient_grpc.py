"""Triton's own Python client over gRPC, unmodified, in its blocking and its asyncio form.

Streams belong to a later part of the server, which refuses them in words.
"""

import asyncio
import json
import queue
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.grpc import (
    InferenceServerClient,
    InferInput,
    InferRequestedOutput,
    InferResult,
    KeepAliveOptions,
    service_pb2,
)
from tritonclient.grpc import aio as triton_aio
from tritonclient.utils import InferenceServerException

from guepard import __version__
from guepard.core.datatypes import DATATYPES
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.identities import onnx_identities
from tests.services.samples import SAMPLES

PYTHON_MODELS = Path("tests/services/python_models.py")


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    built = {
        "add": onnx_models.add("INT32", ("n", 2)),
        "two_outputs": onnx_models.two_outputs(),
        "double": onnx_models.double(),
    }
    arguments = [f"{name}={onnx_models.write_model(models / f'{name}.onnx', model)}" for name, model in built.items()]
    python = [
        f"{name}={PYTHON_MODELS}:{entry}" for name, entry in (("parameters", "EchoParameters"), ("sleep", "Sleep"))
    ]
    return serve(*onnx_identities(models), *arguments, *python)


@pytest.fixture
def client(server: RunningServer) -> Iterator[InferenceServerClient]:
    with InferenceServerClient(server.grpc_address) as client:
        yield client


def given(name: str, array: NDArray[Any], datatype: str) -> InferInput:
    tensor = InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    return tensor


# Inference


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
@pytest.mark.parametrize("datatype", SAMPLES)
def test_every_datatype(server: RunningServer, datatype: str, compression: str | None) -> None:
    array = SAMPLES[datatype]
    model = f"ident_{datatype.lower()}"
    ask = {"inputs": [given("x", array, datatype)], "compression_algorithm": compression}

    async def with_aio() -> InferResult:
        async with triton_aio.InferenceServerClient(server.grpc_address) as client:
            return await client.infer(model, **ask)

    with InferenceServerClient(server.grpc_address) as client:
        results = [client.infer(model, **ask), asyncio.run(with_aio())]
    for result in results:
        back = result.as_numpy("y")
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert np.array_equal(back, array)


def test_outputs_all_some_or_in_another_order(client: InferenceServerClient) -> None:
    inputs = [given("x", np.array([[1, 2, 3, 4]], np.int64), "INT64")]
    everything = client.infer("two_outputs", inputs)
    assert everything.as_numpy("total").tolist() == [10]
    assert everything.as_numpy("negated").tolist() == [[-1, -2, -3, -4]]
    some = client.infer("two_outputs", inputs, outputs=[InferRequestedOutput("negated")])
    assert some.as_numpy("total") is None
    names = [InferRequestedOutput("negated"), InferRequestedOutput("total")]
    assert [output.name for output in client.infer("two_outputs", inputs, outputs=names).get_response().outputs] == [
        "negated",
        "total",
    ]


def test_ids_versions_and_answers_as_json(client: InferenceServerClient) -> None:
    inputs = [given("x", SAMPLES["FP32"], "FP32")]
    response = client.infer("ident_fp32", inputs, model_version="1", request_id='my "id" 😀').get_response()
    assert (response.id, response.model_name, response.model_version) == ('my "id" 😀', "ident_fp32", "1")
    assert client.infer("ident_fp32", inputs).get_response().id == ""
    assert client.infer("ident_fp32", inputs).get_response(as_json=True)["model_name"] == "ident_fp32"


def test_parameters_reach_the_model_with_their_types(client: InferenceServerClient) -> None:
    inputs = [given("x", np.zeros((1, 1), np.float32), "FP32")]
    sent = {"temperature": 0.5, "top_k": 3, "stop": "a", "flag": True}
    for timeout, priority in ((None, 0), (5_000_000, 1), (0, 3)):
        result = client.infer("parameters", inputs, parameters=sent, timeout=timeout, priority=priority)
        assert json.loads(result.as_numpy("parameters")[0, 0]) == sent


def test_a_model_may_be_asked_as_if_it_had_sequences(client: InferenceServerClient) -> None:
    inputs = [given("x", SAMPLES["FP32"], "FP32")]
    result = client.infer("ident_fp32", inputs, sequence_id=7, sequence_start=True, sequence_end=True)
    assert np.array_equal(result.as_numpy("y"), SAMPLES["FP32"])


def test_both_kinds_of_timeout(client: InferenceServerClient) -> None:
    """The server's, a parameter in microseconds, and the call's, gRPC's own deadline in seconds."""
    inputs = [given("x", np.array([[300]], np.int32), "INT32")]
    for limit in ({"timeout": 20_000}, {"client_timeout": 0.02}):
        with pytest.raises(InferenceServerException) as caught:
            client.infer("sleep", inputs, **limit)
        assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    brief = [given("x", np.array([[1]], np.int32), "INT32")]
    assert client.infer("sleep", brief, timeout=20_000_000, client_timeout=20).as_numpy("y").tolist() == [[1]]


def test_a_call_that_is_cancelled(client: InferenceServerClient) -> None:
    outcomes: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    inputs = [given("x", np.array([[2_000]], np.int32), "INT32")]
    context = client.async_infer("sleep", inputs, callback=lambda result, error: outcomes.put((result, error)))
    context.cancel()
    result, error = outcomes.get(timeout=10)
    assert result is None
    assert "CANCELLED" in str(error)


def test_many_in_flight_get_their_own_answers(client: InferenceServerClient) -> None:
    outcomes: queue.SimpleQueue[tuple[int, Any, Any]] = queue.SimpleQueue()
    arrays = [np.full((1 + number % 3, 2), number, np.int32) for number in range(60)]
    for number, array in enumerate(arrays):
        inputs = [given("a", array, "INT32"), given("b", array, "INT32")]
        client.async_infer("add", inputs, lambda result, error, number=number: outcomes.put((number, result, error)))
    for _ in arrays:
        number, result, error = outcomes.get(timeout=20)
        assert error is None
        assert np.array_equal(result.as_numpy("y"), 2 * arrays[number])


@pytest.mark.parametrize("shape", [(200, 5_000), (1, 0), (0, 3)], ids=str)
def test_tensors_large_and_empty(client: InferenceServerClient, shape: tuple[int, int]) -> None:
    array = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    assert np.array_equal(client.infer("ident_fp32", [given("x", array, "FP32")]).as_numpy("y"), array)


def test_typed_contents_in_and_out(server: RunningServer) -> None:
    """As clients that are generated from the .proto file send them."""
    request = service_pb2.ModelInferRequest(model_name="ident_int32")
    tensor = request.inputs.add(name="x", datatype="INT32", shape=[1, 3])
    tensor.contents.int_contents.extend([1, 2, 3])
    with grpc.insecure_channel(server.grpc_address) as channel:
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            service_pb2.ModelInferRequest.SerializeToString,
            service_pb2.ModelInferResponse.FromString,
        )
        raw = infer(request)
        assert np.frombuffer(raw.raw_output_contents[0], np.int32).tolist() == [1, 2, 3]
        request.parameters["binary_data_output"].bool_param = False
        typed = infer(request)
        assert (list(typed.outputs[0].contents.int_contents), len(typed.raw_output_contents)) == ([1, 2, 3], 0)


def test_keep_alive_metadata_and_channel_options(server: RunningServer) -> None:
    options = KeepAliveOptions(keepalive_time_ms=10_000, keepalive_permit_without_calls=True)
    with InferenceServerClient(server.grpc_address, keepalive_options=options) as client:
        inputs = [given("x", SAMPLES["FP32"], "FP32")]
        result = client.infer("ident_fp32", inputs, headers={"x-mine": "1", "x-request-id": "abc"})
        assert np.array_equal(result.as_numpy("y"), SAMPLES["FP32"])
    with InferenceServerClient(server.grpc_address, channel_args=[("grpc.max_receive_message_length", -1)]) as client:
        assert client.is_server_live(headers={"x-mine": "1"})


# Errors


@pytest.mark.parametrize(
    ("model", "version", "inputs", "outputs", "status", "reason"),
    [
        ("unknown", "", [("x", "FP32", (1, 2))], None, "NOT_FOUND", "unknown model 'unknown'"),
        ("add", "9", [("a", "INT32", (1, 2))], None, "NOT_FOUND", "model 'add' has no version '9'; it serves '1'"),
        ("ident_fp32", "", [("x", "INT32", (1, 2))], None, "INVALID_ARGUMENT", "expected datatype FP32, got INT32"),
        ("ident_fp32", "", [("x", "FP32", (2,))], None, "INVALID_ARGUMENT", "input 'x': expected shape [-1, -1]"),
        ("ident_fp32", "", [("z", "FP32", (1, 2))], None, "INVALID_ARGUMENT", "input 'z' is no input of model"),
        ("add", "", [("a", "INT32", (1, 2))], None, "INVALID_ARGUMENT", "input 'b' is missing"),
        ("ident_fp32", "", [("x", "FP32", (1, 2))], [("z", 0)], "INVALID_ARGUMENT", "outputs: 'z' is no output of"),
        ("ident_fp32", "", [("x", "FP32", (1, 2))], [("y", 3)], "UNIMPLEMENTED", "classification is not served"),
    ],
)
def test_errors_come_as_the_client_s_exception_with_our_text(
    server: RunningServer, model: str, version: str, inputs: Any, outputs: Any, status: str, reason: str
) -> None:
    tensors = [given(name, np.zeros(shape, DATATYPES[kind].dtype), kind) for name, kind, shape in inputs]
    wanted = outputs and [InferRequestedOutput(name, class_count=count) for name, count in outputs]

    async def with_aio() -> None:
        async with triton_aio.InferenceServerClient(server.grpc_address) as client:
            with pytest.raises(InferenceServerException) as caught:
                await client.infer(model, tensors, model_version=version, outputs=wanted)
            assert caught.value.status() == f"StatusCode.{status}"
            assert reason in caught.value.message()

    with InferenceServerClient(server.grpc_address) as client:
        with pytest.raises(InferenceServerException) as caught:
            client.infer(model, tensors, model_version=version, outputs=wanted)
        assert caught.value.status() == f"StatusCode.{status}"
        assert reason in caught.value.message()
        assert client.is_server_live()
    asyncio.run(with_aio())


def test_streams_are_refused_in_words(client: InferenceServerClient) -> None:
    outcomes: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    client.start_stream(callback=lambda result, error: outcomes.put((result, error)))
    with suppress(InferenceServerException):  # the client's own, if the refusal has reached it by now
        client.async_stream_infer("ident_fp32", [given("x", SAMPLES["FP32"], "FP32")])
    _, error = outcomes.get(timeout=10)
    client.stop_stream()
    assert "streams are not served yet" in str(error)
    assert client.is_server_live()


# Documents and the repository


def test_health(client: InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("add")
    assert client.is_model_ready("add", "1")
    for name, version in (("add", "2"), ("unknown", "")):
        with pytest.raises(InferenceServerException) as caught:
            client.is_model_ready(name, version)
        assert caught.value.status() == "StatusCode.NOT_FOUND"


def test_documents_are_those_of_the_http_routes(server: RunningServer, client: InferenceServerClient) -> None:
    def over_http(path: str) -> Any:
        return server.request("GET", path).json

    metadata = client.get_server_metadata(as_json=True)
    assert metadata == over_http("/v2")
    assert (metadata["name"], metadata["version"]) == ("guepard", __version__)
    model = client.get_model_metadata("two_outputs", "1", as_json=True)
    document = over_http("/v2/models/two_outputs")
    for tensor in (*document["inputs"], *document["outputs"]):
        tensor["shape"] = [str(dim) for dim in tensor["shape"]]  # how protobuf's JSON writes 64-bit integers
    assert model == document
    config = client.get_model_config("two_outputs").config
    assert (config.name, config.backend, config.max_batch_size) == ("two_outputs", "onnxruntime", 64)
    assert [(each.name, each.data_type, list(each.dims)) for each in config.output] == [
        ("total", 9, []),
        ("negated", 9, [4]),
    ]
    assert config.dynamic_batching.default_queue_policy.max_queue_size == 1_000
    client.infer("double", [given("x", np.ones((2, 4), np.float32), "FP32")])
    (statistics,) = client.get_inference_statistics("double").model_stats
    (expected,) = over_http("/v2/models/double/stats")["model_stats"]
    assert statistics.inference_count == expected["inference_count"] >= 2
    assert statistics.inference_stats.success.ns == expected["inference_stats"]["success"]["ns"] > 0
    assert {each.batch_size for each in statistics.batch_stats} == {
        each["batch_size"] for each in expected["batch_stats"]
    }
    everything = {each.name for each in client.get_inference_statistics().model_stats}
    assert {"add", "double"} <= everything


def test_repository(client: InferenceServerClient) -> None:
    def entry() -> Any:
        (found,) = [each for each in client.get_model_repository_index().models if each.name == "double"]
        return found

    assert (entry().version, entry().state, entry().reason) == ("1", "READY", "")
    client.unload_model("double")
    assert (entry().state, entry().reason) == ("UNAVAILABLE", "unloaded")
    with pytest.raises(InferenceServerException, match="model 'double' is not ready") as caught:
        client.infer("double", [given("x", np.ones((1, 4), np.float32), "FP32")])
    assert caught.value.status() == "StatusCode.UNAVAILABLE"
    client.load_model("double")
    client.unload_model("double", unload_dependents=True)
    client.load_model("double")
    assert (entry().state, client.is_model_ready("double")) == ("READY", True)
    assert client.infer("double", [given("x", np.ones((1, 4), np.float32), "FP32")]).as_numpy("y").tolist() == [
        [2.0] * 4
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        ({}, "NOT_FOUND", "unknown model 'unknown'"),
        ({"config": '{"backend":"python"}'}, "PERMISSION_DENIED", "parameters.config: a client may not override"),
        ({"config": "{}", "files": {"file:1/model.py": b"import os"}}, "PERMISSION_DENIED", "may not override"),
    ],
)
def test_loads_that_are_refused(
    client: InferenceServerClient, arguments: dict[str, Any], status: str, reason: str
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("add" if arguments else "unknown", **arguments)
    assert caught.value.status() == f"StatusCode.{status}"
    assert reason in caught.value.message()
    assert client.is_model_ready("add")


def test_trace_settings(client: InferenceServerClient) -> None:
    def values(response: Any) -> dict[str, list[str]]:
        return {field: list(each.value) for field, each in response.settings.items()}

    defaults = values(client.get_trace_settings())
    assert defaults["trace_level"] == ["OFF"]
    changed = client.update_trace_settings(
        "add", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "2"}
    )
    assert values(changed) | {"trace_rate": ["1"], "trace_count": ["2"]} == values(changed)
    assert values(client.get_trace_settings("add"))["trace_level"] == ["TIMESTAMPS"]
    assert values(client.get_trace_settings()) == defaults
    nothing = dict.fromkeys(("trace_level", "trace_rate", "trace_count"))
    assert values(client.update_trace_settings("add", nothing)) == defaults
    for settings, status in (
        ({"trace_file": "/tmp/x"}, "PERMISSION_DENIED"),
        ({"trace_rate": "often"}, "INVALID_ARGUMENT"),
        ({"unknown": "1"}, "INVALID_ARGUMENT"),
        ({"trace_level": ["TENSORS"]}, "UNIMPLEMENTED"),
    ):
        with pytest.raises(InferenceServerException) as caught:
            client.update_trace_settings(settings=settings)
        assert caught.value.status() == f"StatusCode.{status}"
    with pytest.raises(InferenceServerException, match="unknown model"):
        client.get_trace_settings("unknown")


def test_log_settings(client: InferenceServerClient) -> None:
    before = client.get_log_settings().settings
    assert (before["log_info"].bool_param, before["log_verbose_level"].uint32_param) == (True, 0)
    changed = client.update_log_settings({"log_verbose_level": 1, "log_warning": False}).settings
    assert (changed["log_warning"].bool_param, changed["log_verbose_level"].uint32_param) == (False, 1)
    client.update_log_settings({"log_verbose_level": 0, "log_warning": True})
    assert client.get_log_settings().settings == before
    with pytest.raises(InferenceServerException) as caught:
        client.update_log_settings({"log_file": "/tmp/x"})
    assert caught.value.status() == "StatusCode.PERMISSION_DENIED"


def test_the_asyncio_form(server: RunningServer) -> None:
    async def one(client: triton_aio.InferenceServerClient, number: int) -> None:
        array = np.full((1 + number % 3, 2), number, np.int32)
        result = await client.infer(
            "add", [given("a", array, "INT32"), given("b", array, "INT32")], request_id=str(number)
        )
        assert result.get_response().id == str(number)
        assert np.array_equal(result.as_numpy("y"), 2 * array)

    async def everything() -> None:
        async with triton_aio.InferenceServerClient(server.grpc_address) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("add", "1")
            assert (await client.get_server_metadata()).name == "guepard"
            assert (await client.get_model_metadata("add")).inputs[1].name == "b"
            assert (await client.get_model_config("add", "1")).config.name == "add"
            assert (await client.get_inference_statistics("add")).model_stats[0].version == "1"
            assert list((await client.get_trace_settings()).settings["trace_level"].value) == ["OFF"]
            assert (await client.get_log_settings()).settings["log_error"].bool_param
            index = await client.get_model_repository_index()
            assert {"add", "double"} <= {each.name for each in index.models}
            await asyncio.gather(*[one(client, number) for number in range(50)])
            with pytest.raises(InferenceServerException, match="deadline"):
                await client.infer("sleep", [given("x", np.array([[300]], np.int32), "INT32")], timeout=20_000)

    asyncio.run(everything())

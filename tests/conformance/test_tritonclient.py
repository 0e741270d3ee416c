"""Inference through Triton's own Python client over HTTP, in its blocking and its asyncio form, unmodified.

Shared memory and compression have files of their own. Left to later parts: trace and log settings, sequences with
state, and gRPC.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput, InferResult
from tritonclient.http import aio as triton_aio
from tritonclient.utils import InferenceServerException

from guepard.core.datatypes import DATATYPES
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.identities import onnx_identities
from tests.services.samples import SAMPLES

PYTHON_MODELS = Path("tests/services/python_models.py")


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    built = {"add": onnx_models.add("INT32", ("n", 2)), "two_outputs": onnx_models.two_outputs()}
    arguments = [f"{name}={onnx_models.write_model(models / f'{name}.onnx', model)}" for name, model in built.items()]
    python = [
        f"{name}={PYTHON_MODELS}:{entry}" for name, entry in (("parameters", "EchoParameters"), ("sleep", "Sleep"))
    ]
    return serve(*onnx_identities(models), *arguments, *python)


@pytest.fixture
def client(server: RunningServer) -> Iterator[InferenceServerClient]:
    with InferenceServerClient(server.address, concurrency=8) as client:
        yield client


def given(name: str, array: NDArray[Any], datatype: str, *, binary: bool = True) -> InferInput:
    tensor = InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def test_every_datatype_is_tested() -> None:
    assert SAMPLES.keys() == DATATYPES.keys()


# Inference


@pytest.mark.parametrize("binary_out", [True, False], ids=["binary out", "JSON out"])
@pytest.mark.parametrize(
    ("datatype", "binary_in"),
    # The client itself sends BF16 as bytes only.
    [(name, binary) for name in SAMPLES for binary in (True, False) if binary or name != "BF16"],
    ids=lambda value: value if isinstance(value, str) else "binary in" if value else "JSON in",
)
def test_every_datatype_in_every_form(server: RunningServer, datatype: str, binary_in: bool, binary_out: bool) -> None:
    array = SAMPLES[datatype]
    model = f"ident_{datatype.lower()}"
    inputs = [given("x", array, datatype, binary=binary_in)]
    outputs = [InferRequestedOutput("y", binary_data=binary_out)]

    async def with_aio() -> None:
        async with triton_aio.InferenceServerClient(server.address) as client:
            is_equal(await client.infer(model, inputs, outputs=outputs))

    def is_equal(result: InferResult) -> None:
        back = result.as_numpy("y")
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        if datatype == "BYTES" and not binary_out:  # the client leaves JSON strings as str
            back = np.vectorize(str.encode, otypes=[object])(back)
        assert np.array_equal(back, array)

    with InferenceServerClient(server.address) as client:
        is_equal(client.infer(model, inputs, outputs=outputs))
    asyncio.run(with_aio())


@pytest.mark.parametrize("binary", [True, False])
def test_several_inputs_in_any_order(client: InferenceServerClient, binary: bool) -> None:
    a = given("a", np.array([[1, 2]], np.int32), "INT32", binary=binary)
    b = given("b", np.array([[10, 20]], np.int32), "INT32")
    for inputs in ([a, b], [b, a]):
        assert client.infer("add", inputs).as_numpy("y").tolist() == [[11, 22]]


def test_outputs_all_some_or_in_another_order(client: InferenceServerClient) -> None:
    inputs = [given("x", np.array([[1, 2, 3, 4]], np.int64), "INT64")]
    everything = client.infer("two_outputs", inputs)
    assert everything.as_numpy("total").tolist() == [10]
    assert everything.as_numpy("negated").tolist() == [[-1, -2, -3, -4]]
    some = client.infer("two_outputs", inputs, outputs=[InferRequestedOutput("negated")])
    assert some.as_numpy("total") is None
    assert some.as_numpy("negated").tolist() == [[-1, -2, -3, -4]]
    asked = [InferRequestedOutput("negated", binary_data=False), InferRequestedOutput("total", binary_data=True)]
    mixed = client.infer("two_outputs", inputs, outputs=asked)
    assert [output["name"] for output in mixed.get_response()["outputs"]] == ["negated", "total"]
    assert mixed.get_output("negated")["data"] == [-1, -2, -3, -4]
    assert mixed.as_numpy("total").tolist() == [10]


def test_request_ids_and_versions(client: InferenceServerClient) -> None:
    inputs = [given("x", SAMPLES["FP32"], "FP32")]
    result = client.infer("ident_fp32", inputs, model_version="1", request_id='my "id" 😀')
    response = result.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == ('my "id" 😀', "ident_fp32", "1")
    assert "id" not in client.infer("ident_fp32", inputs).get_response()


def test_parameters_reach_the_model(client: InferenceServerClient) -> None:
    inputs = [given("x", np.zeros((1, 1), np.float32), "FP32")]
    sent = {"temperature": 0.5, "top_k": 3, "stop": "a", "flag": True}
    for timeout, priority in ((None, 0), (5_000_000, 1), (0, 3)):
        result = client.infer("parameters", inputs, parameters=sent, timeout=timeout, priority=priority)
        assert json.loads(result.as_numpy("parameters")[0, 0]) == sent


def test_a_model_may_be_asked_as_if_it_had_sequences(client: InferenceServerClient) -> None:
    inputs = [given("x", SAMPLES["FP32"], "FP32")]
    result = client.infer("ident_fp32", inputs, sequence_id=7, sequence_start=True, sequence_end=True)
    assert np.array_equal(result.as_numpy("y"), SAMPLES["FP32"])


def test_headers_and_query_parameters_do_no_harm(client: InferenceServerClient) -> None:
    inputs = [given("x", SAMPLES["FP32"], "FP32")]
    result = client.infer("ident_fp32", inputs, headers={"X-Mine": "1"}, query_params={"a": "b", "c": ["1", "2"]})
    assert np.array_equal(result.as_numpy("y"), SAMPLES["FP32"])
    assert client.is_server_live(query_params={"a": 1})
    assert client.get_model_metadata("add", query_params={"a": 1})["name"] == "add"


def test_a_timeout_in_microseconds(client: InferenceServerClient) -> None:
    inputs = [given("x", np.array([[300]], np.int32), "INT32")]
    with pytest.raises(InferenceServerException, match="deadline") as caught:
        client.infer("sleep", inputs, timeout=20_000)
    assert caught.value.status() == "504"
    brief = [given("x", np.array([[1]], np.int32), "INT32")]
    assert client.infer("sleep", brief, timeout=20_000_000).as_numpy("y").tolist() == [[1]]


@pytest.mark.parametrize("shape", [(200, 5_000), (1, 0), (0, 3)], ids=str)
def test_tensors_large_and_empty(client: InferenceServerClient, shape: tuple[int, int]) -> None:
    array = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    assert np.array_equal(client.infer("ident_fp32", [given("x", array, "FP32")]).as_numpy("y"), array)


def test_bodies_that_other_http_clients_carry(server: RunningServer) -> None:
    """`generate_request_body` and `parse_response_body` are how SageMaker and others speak the protocol."""
    inputs = [given("x", SAMPLES["INT32"], "INT32")]
    for binary in (True, False):
        outputs = [InferRequestedOutput("y", binary_data=binary)]
        body, length = InferenceServerClient.generate_request_body(inputs, outputs=outputs)
        headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(length)}
        answer = server.request("POST", "/v2/models/ident_int32/infer", body, headers)
        json_length = answer.headers.get("inference-header-content-length")
        result = InferenceServerClient.parse_response_body(
            answer.body, header_length=None if json_length is None else int(json_length)
        )
        assert (json_length is not None) is binary
        assert np.array_equal(result.as_numpy("y"), SAMPLES["INT32"])


def test_a_raw_body(server: RunningServer) -> None:
    """Triton's "raw binary request": a header length of 0, the data of the only input and nothing else."""
    answer = server.request(
        "POST", "/v2/models/ident_int32/infer", SAMPLES["INT32"].tobytes(), {"Inference-Header-Content-Length": "0"}
    )
    length = int(answer.headers["inference-header-content-length"])
    assert json.loads(answer.body[:length])["outputs"][0]["shape"] == [1, 3]
    assert answer.body[length:] == SAMPLES["INT32"].tobytes()


def test_many_in_flight_get_their_own_answers(server: RunningServer) -> None:
    with InferenceServerClient(server.address, concurrency=20) as client:
        arrays = [np.full((1 + number % 3, 2), number, np.int32) for number in range(60)]
        waiting = [
            client.async_infer("add", [given("a", array, "INT32"), given("b", array, "INT32")], request_id=str(number))
            for number, array in enumerate(arrays)
        ]
        for number, (array, answer) in enumerate(zip(arrays, waiting, strict=True)):
            result = answer.get_result()
            assert result.get_response()["id"] == str(number)
            assert np.array_equal(result.as_numpy("y"), 2 * array)


def test_fifty_at_once_on_one_loop_get_their_own_answers(server: RunningServer) -> None:
    async def one(client: triton_aio.InferenceServerClient, number: int) -> None:
        array = np.full((1 + number % 3, 2), number, np.int32)
        inputs = [given("a", array, "INT32", binary=number % 2 == 0), given("b", array, "INT32")]
        outputs = [InferRequestedOutput("y", binary_data=number % 5 != 0)]
        result = await client.infer("add", inputs, outputs=outputs, request_id=str(number))
        assert result.get_response()["id"] == str(number)
        assert np.array_equal(result.as_numpy("y"), 2 * array)

    async def all_at_once() -> None:
        async with triton_aio.InferenceServerClient(server.address, conn_limit=50) as client:
            for _ in range(4):
                await asyncio.gather(*[one(client, number) for number in range(50)])

    asyncio.run(all_at_once())


# Errors


@pytest.mark.parametrize(
    ("model", "version", "inputs", "outputs", "status", "reason"),
    [
        ("unknown", "", [("x", "FP32", (1, 2))], None, "404", "unknown model 'unknown'"),
        ("add", "9", [("a", "INT32", (1, 2))], None, "404", "model 'add' has no version '9'; it serves '1'"),
        ("ident_fp32", "", [("x", "INT32", (1, 2))], None, "400", "input 'x': expected datatype FP32, got INT32"),
        ("ident_fp32", "", [("x", "FP32", (2,))], None, "400", "input 'x': expected shape [-1, -1]"),
        ("ident_fp32", "", [("z", "FP32", (1, 2))], None, "400", "input 'z' is no input of model 'ident_fp32'"),
        ("add", "", [("a", "INT32", (1, 2))], None, "400", "input 'b' is missing; model 'add' needs 'a', 'b'"),
        ("add", "", [], None, "400", "input 'a' is missing"),
        ("ident_fp32", "", [("x", "FP32", (1, 2))], [("z", 0)], "400", "outputs: 'z' is no output of model"),
        ("ident_fp32", "", [("x", "FP32", (1, 2))], [("y", 3)], "501", "classification is not served"),
    ],
)
def test_errors_come_as_the_client_s_exception_with_our_text(
    server: RunningServer, model: str, version: str, inputs: Any, outputs: Any, status: str, reason: str
) -> None:
    tensors = [given(name, np.zeros(shape, DATATYPES[kind].dtype), kind) for name, kind, shape in inputs]
    wanted = outputs and [InferRequestedOutput(name, class_count=count) for name, count in outputs]

    async def with_aio() -> None:
        async with triton_aio.InferenceServerClient(server.address) as client:
            with pytest.raises(InferenceServerException) as caught:
                await client.infer(model, tensors, model_version=version, outputs=wanted)
            assert caught.value.status() == status
            assert reason in caught.value.message()

    with InferenceServerClient(server.address) as client:
        with pytest.raises(InferenceServerException) as caught:
            client.infer(model, tensors, model_version=version, outputs=wanted)
        assert caught.value.status() == status
        assert reason in caught.value.message()
        assert client.is_server_live()
    asyncio.run(with_aio())


def test_a_priority_that_there_is_not(client: InferenceServerClient) -> None:
    with pytest.raises(InferenceServerException, match=r"parameters.priority: expected 0 \(the default\) to 3"):
        client.infer("ident_fp32", [given("x", SAMPLES["FP32"], "FP32")], priority=9)


# The rest of the asyncio form


def test_parameters_and_timeouts_by_asyncio(server: RunningServer) -> None:
    async def everything() -> None:
        async with triton_aio.InferenceServerClient(server.address) as client:
            inputs = [given("x", np.zeros((1, 1), np.float32), "FP32")]
            result = await client.infer("parameters", inputs, parameters={"k": 1}, priority=2, timeout=1_000_000)
            assert json.loads(result.as_numpy("parameters")[0, 0]) == {"k": 1}
            with pytest.raises(InferenceServerException, match="deadline") as caught:
                await client.infer("sleep", [given("x", np.array([[300]], np.int32), "INT32")], timeout=20_000)
            assert caught.value.status() == "504"

    asyncio.run(everything())

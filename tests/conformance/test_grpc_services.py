"""What generic gRPC tools rely on: reflection, and gRPC's own health protocol."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from guepard.protocols.grpc_messages import HEALTH_SERVICE, INFERENCE_SERVICE, REFLECTION_SERVICES, message_class
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.reflecting_client import ReflectingClient

SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    add = onnx_models.write_model(models / "add.onnx", onnx_models.add("INT32", ("n", 2)))
    return serve(f"add={add}", f"other={add}")


@pytest.fixture
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield channel


# Reflection


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_services_are_listed(channel: grpc.Channel, version: str) -> None:
    assert ReflectingClient(channel, version).services() == [INFERENCE_SERVICE, HEALTH_SERVICE, *REFLECTION_SERVICES]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_a_client_that_knows_only_the_address_asks_a_model(channel: grpc.Channel, version: str) -> None:
    client = ReflectingClient(channel, version)
    tensor = {"datatype": "INT32", "shape": [1, 2], "contents": {"int_contents": [1, 2]}}
    answer = client.call(
        INFERENCE_SERVICE,
        "ModelInfer",
        {
            "model_name": "add",
            "inputs": [{"name": "a", **tensor}, {"name": "b", **tensor}],
            "parameters": {"binary_data_output": {"bool_param": False}},
        },
    )
    (output,) = answer["outputs"]
    assert output == {"name": "y", "datatype": "INT32", "shape": ["1", "2"], "contents": {"int_contents": [2, 4]}}
    assert client.call(INFERENCE_SERVICE, "ModelConfig", {"name": "add"})["config"]["name"] == "add"
    assert client.call(HEALTH_SERVICE, "Check", {}) == {"status": "SERVING"}


@pytest.mark.parametrize(
    "question",
    [
        {"file_by_filename": "guepard/health.proto"},
        {"file_containing_symbol": "inference.ModelInferRequest"},
        {"file_containing_symbol": "inference.ModelInferRequest.InferInputTensor"},
        {"file_containing_symbol": "inference.GRPCInferenceService.ModelInfer"},
        {"file_containing_symbol": "grpc.reflection.v1.ServerReflection"},
    ],
    ids=lambda question: next(iter(question.values())),
)
def test_files_are_found_by_name_and_by_what_they_hold(channel: grpc.Channel, question: dict[str, str]) -> None:
    answer = ReflectingClient(channel).ask(**question)
    assert answer.file_descriptor_response.file_descriptor_proto


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ({"file_by_filename": "nothing.proto"}, 5),
        ({"file_containing_symbol": "no.such.Symbol"}, 5),
        ({"file_containing_symbol": "x" * 10_000}, 5),
        ({"file_containing_extension": {"containing_type": "inference.ModelConfig", "extension_number": 1}}, 5),
        ({"all_extension_numbers_of_type": "no.such.Type"}, 5),
        ({}, 3),
    ],
)
def test_what_does_not_exist_is_an_answer(channel: grpc.Channel, question: dict[str, Any], code: int) -> None:
    answer = ReflectingClient(channel).ask(**question)
    assert answer.error_response.error_code == code
    assert answer.error_response.error_message


def test_there_are_no_extensions(channel: grpc.Channel) -> None:
    answer = ReflectingClient(channel).ask(all_extension_numbers_of_type="inference.ModelConfig")
    assert answer.all_extension_numbers_response.base_type_name == "inference.ModelConfig"
    assert not answer.all_extension_numbers_response.extension_number


# Health


def check(channel: grpc.Channel, service: str = "") -> int:
    request = message_class("grpc.health.v1.HealthCheckRequest")(service=service)
    response: Any = message_class("grpc.health.v1.HealthCheckResponse")
    call = channel.unary_unary(f"/{HEALTH_SERVICE}/Check", type(request).SerializeToString, response.FromString)
    status: int = call(request, timeout=10).status
    return status


def watch(channel: grpc.Channel, service: str = "") -> Any:
    request = message_class("grpc.health.v1.HealthCheckRequest")(service=service)
    response: Any = message_class("grpc.health.v1.HealthCheckResponse")
    return channel.unary_stream(f"/{HEALTH_SERVICE}/Watch", type(request).SerializeToString, response.FromString)(
        request, timeout=30
    )


def test_health_of_server_services_and_models(server: RunningServer, channel: grpc.Channel) -> None:
    assert check(channel) == check(channel, INFERENCE_SERVICE) == check(channel, "add") == SERVING
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, "unknown")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    listed = channel.unary_unary(f"/{HEALTH_SERVICE}/List")(b"", timeout=10)
    statuses = message_class("grpc.health.v1.HealthListResponse").FromString(listed).statuses
    assert {name: status.status for name, status in statuses.items()} == dict.fromkeys(
        ("", INFERENCE_SERVICE, "add", "other"), SERVING
    )


def test_a_watch_tells_what_changes(server: RunningServer, channel: grpc.Channel) -> None:
    stream = watch(channel, "other")
    assert next(stream).status == SERVING
    server.request("POST", "/v2/repository/models/other/unload")
    assert next(stream).status == NOT_SERVING
    assert check(channel, "other") == NOT_SERVING
    server.request("POST", "/v2/repository/models/other/load")
    assert next(stream).status == SERVING
    stream.cancel()
    unknown = watch(channel, "unknown")
    assert next(unknown).status == SERVICE_UNKNOWN
    unknown.cancel()


def test_a_watch_says_first_that_the_server_is_going(models: Path) -> None:
    add = onnx_models.write_model(models / "going.onnx", onnx_models.add())
    with (
        RunningServer(f"add={add}", "--pre-stop-delay", "2s") as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        stream = watch(channel)
        assert next(stream).status == SERVING
        server.process.send_signal(signal.SIGTERM)
        assert next(stream).status == NOT_SERVING
        assert check(channel) == NOT_SERVING
        # And a stream that its caller keeps open does not hold up the end.
        assert server.process.wait(20) == 0
        assert list(stream) == []

"""Our own schema of the gRPC services: the same wire as Triton's, in nobody's way, and as the .proto files say."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from tritonclient.grpc import model_config_pb2, service_pb2

from guepard.protocols.grpc_messages import (
    HEALTH_SERVICE,
    INFERENCE_SERVICE,
    REFLECTION_SERVICES,
    message_class,
    method_classes,
    method_names,
    pool,
)

PROTO = Path("src/guepard/protocols/proto")
THEIRS = {
    **service_pb2.DESCRIPTOR.message_types_by_name,
    **model_config_pb2.DESCRIPTOR.message_types_by_name,
}


def fields_of(message: Descriptor) -> dict[str, Any]:
    """Everything of a message that its bytes depend on."""
    return {field.name: field_of(field) for field in message.fields}


def field_of(field: FieldDescriptor) -> tuple[Any, ...]:
    inner = field.message_type.full_name if field.message_type else None
    enum = numbers_of(field.enum_type) if field.enum_type else None
    oneof = field.containing_oneof.name if field.containing_oneof else None
    return (field.number, field.type, field.is_repeated, inner, enum, oneof, field.has_presence)


def numbers_of(enum: EnumDescriptor) -> dict[str, int]:
    return {value.name: value.number for value in enum.values}


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_every_message_is_the_one_that_tritons_client_has(name: str) -> None:
    def compare(ours: Descriptor, theirs: Descriptor) -> None:
        assert fields_of(ours) == fields_of(theirs), theirs.full_name
        assert ours.nested_types_by_name.keys() == theirs.nested_types_by_name.keys()
        for nested in theirs.nested_types:
            compare(ours.nested_types_by_name[nested.name], nested)

    compare(pool().FindMessageTypeByName(f"inference.{name}"), THEIRS[name])


def test_the_service_has_the_calls_that_tritons_client_makes() -> None:
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    assert set(method_names(INFERENCE_SERVICE)) == {method.name for method in theirs.methods}
    ours = pool().FindServiceByName(INFERENCE_SERVICE)
    for method in theirs.methods:
        own = ours.methods_by_name[method.name]
        assert (own.client_streaming, own.server_streaming) == (method.client_streaming, method.server_streaming)
        request, response = method_classes(INFERENCE_SERVICE, method.name)
        assert request.DESCRIPTOR.full_name == method.input_type.full_name
        assert response.DESCRIPTOR.full_name == method.output_type.full_name


def test_our_messages_live_in_a_pool_of_their_own() -> None:
    ours = message_class("inference.ModelInferRequest")
    assert ours is not service_pb2.ModelInferRequest
    assert ours.DESCRIPTOR.file.pool is pool()
    same = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[b"abc"])
    assert ours.FromString(same.SerializeToString()).raw_input_contents == [b"abc"]


@pytest.mark.parametrize("first", ["guepard.protocols.grpc_messages", "tritonclient.grpc"])
def test_either_package_may_be_imported_first(first: str) -> None:
    code = (
        f"import {first}, tritonclient.grpc, guepard.protocols.grpc_messages as ours;"
        "ours.message_class('inference.ModelConfig')(name='m');"
        "tritonclient.grpc.model_config_pb2.ModelConfig(name='m')"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


def test_the_descriptors_are_compiled_from_the_proto_files(tmp_path: Path) -> None:
    """`make proto` does it. Compared by content: compilers differ in what they leave out."""
    files = sorted(path.name for path in PROTO.glob("*.proto"))
    compiled = tmp_path / "descriptors.binpb"
    arguments = ["--proto_path=guepard=.", f"--descriptor_set_out={compiled}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments, *files], check=True, timeout=60, cwd=PROTO)
    assert by_name(compiled) == by_name(PROTO / "descriptors.binpb")


def by_name(path: Path) -> dict[str, FileDescriptorProto]:
    return {file.name: file for file in FileDescriptorSet.FromString(path.read_bytes()).file}


def test_health_and_reflection_have_their_methods() -> None:
    assert method_names(HEALTH_SERVICE) == ["Check", "List", "Watch"]
    for service in REFLECTION_SERVICES:
        assert method_names(service) == ["ServerReflectionInfo"]

"""The protobuf messages of the gRPC services, in a descriptor pool of our own.

protobuf's default pool holds one message per name and process. A program that imports another package with the same
names beside us, Triton's client for instance, would clash there, so ours stay out of it. The classes are made from
`proto/descriptors.binpb`, which `make proto` compiles from the `.proto` files beside it.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

INFERENCE_SERVICE = "inference.GRPCInferenceService"
HEALTH_SERVICE = "grpc.health.v1.Health"
REFLECTION_SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


@cache
def pool() -> DescriptorPool:
    """The pool that all messages of this package live in."""
    own = DescriptorPool()
    for file in _files():
        own.AddSerializedFile(file.SerializeToString())
    return own


@cache
def message_class(name: str) -> Any:
    """The class of the message with this full name, such as `inference.ModelInferRequest`."""
    return GetMessageClass(pool().FindMessageTypeByName(name))


def method_classes(service: str, method: str) -> tuple[Any, Any]:
    """The classes of a method's request and response."""
    descriptor = pool().FindServiceByName(service).methods_by_name[method]
    return message_class(descriptor.input_type.full_name), message_class(descriptor.output_type.full_name)


def method_names(service: str) -> list[str]:
    return [method.name for method in pool().FindServiceByName(service).methods]


def _files() -> list[FileDescriptorProto]:
    data = files("guepard.protocols").joinpath("proto", "descriptors.binpb").read_bytes()
    return list(FileDescriptorSet.FromString(data).file)

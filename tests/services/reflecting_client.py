"""A client that knows nothing but an address: it learns services and messages by reflection, as grpcurl does."""

import json
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from guepard.protocols.grpc_messages import message_class


class ReflectingClient:
    """`version` is the reflection protocol's: v1 or v1alpha."""

    def __init__(self, channel: grpc.Channel, version: str = "v1") -> None:
        self._channel = channel
        package = f"grpc.reflection.{version}"
        self._request = message_class(f"{package}.ServerReflectionRequest")
        self._reflect = channel.stream_stream(
            f"/{package}.ServerReflection/ServerReflectionInfo",
            self._request.SerializeToString,
            message_class(f"{package}.ServerReflectionResponse").FromString,
        )

    def ask(self, **question: Any) -> Any:
        """One answer of the reflection service."""
        (answer,) = self._reflect(iter([self._request(**question)]), timeout=10)
        return answer

    def services(self) -> list[str]:
        return [service.name for service in self.ask(list_services="").list_services_response.service]

    def call(self, service: str, method: str, document: dict[str, Any]) -> Any:
        """Send `document` as JSON, the way of `grpcurl -d '{…}' address service/method`, and return the answer so."""
        pool = DescriptorPool()
        for data in reversed(self._files(service)):
            pool.AddSerializedFile(data)
        descriptor = pool.FindServiceByName(service).methods_by_name[method]
        request = json_format.Parse(json.dumps(document), GetMessageClass(descriptor.input_type)())
        answer = self._channel.unary_unary(
            f"/{service}/{method}",
            type(request).SerializeToString,
            GetMessageClass(descriptor.output_type).FromString,
        )(request, timeout=10)
        return json_format.MessageToDict(answer, preserving_proto_field_name=True)

    def _files(self, symbol: str) -> list[bytes]:
        answer = self.ask(file_containing_symbol=symbol)
        files = list(answer.file_descriptor_response.file_descriptor_proto)
        assert files, answer
        assert FileDescriptorProto.FromString(files[0]).name
        return files

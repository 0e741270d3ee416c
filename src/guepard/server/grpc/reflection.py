"""Server reflection: what services there are and what their messages look like, read from our own descriptor pool."""

from typing import Any

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import DecodeError

from guepard.core.errors import InputError
from guepard.protocols.grpc_messages import HEALTH_SERVICE, INFERENCE_SERVICE, REFLECTION_SERVICES, message_class, pool

SERVICES = (INFERENCE_SERVICE, HEALTH_SERVICE, *REFLECTION_SERVICES)

_NOT_FOUND = 5  # the gRPC code, which travels as a number in this protocol
_INVALID_ARGUMENT = 3


class Reflection:
    """Answers in one version of the protocol; `service` is its full name."""

    def __init__(self, service: str) -> None:
        package = service.rpartition(".")[0]
        self._request_class = message_class(f"{package}.ServerReflectionRequest")
        self._response_class = message_class(f"{package}.ServerReflectionResponse")

    def answer(self, message: bytes) -> bytes:
        """One question's answer; what does not exist is an answer too. Raises: InputError."""
        try:
            request = self._request_class.FromString(message)
        except DecodeError:
            raise InputError("request message: not a ServerReflectionRequest") from None
        response = self._response_class(valid_host=request.host, original_request=request)
        question = request.WhichOneof("message_request")
        try:
            self._fill(response, request, question)
        except KeyError:
            response.error_response.error_code = _NOT_FOUND
            response.error_response.error_message = f"{getattr(request, question)!s:.256} was not found"
        data: bytes = response.SerializeToString()
        return data

    def _fill(self, response: Any, request: Any, question: str | None) -> None:
        """Raises: KeyError for what does not exist."""
        if question == "list_services":
            for name in SERVICES:
                response.list_services_response.service.add(name=name)
        elif question == "file_by_filename":
            _add_file(response, pool().FindFileByName(request.file_by_filename))
        elif question == "file_containing_symbol":
            _add_file(response, _file_of(request.file_containing_symbol))
        elif question == "all_extension_numbers_of_type":
            message = pool().FindMessageTypeByName(request.all_extension_numbers_of_type)
            response.all_extension_numbers_response.base_type_name = message.full_name  # and no numbers: there are none
        elif question == "file_containing_extension":
            raise KeyError("there are no extensions")
        else:
            response.error_response.error_code = _INVALID_ARGUMENT
            response.error_response.error_message = "message_request: empty; ask for one of its fields"


def _file_of(symbol: str) -> FileDescriptor:
    """Where `symbol` is declared. The pool does not find methods by their own names. Raises: KeyError."""
    try:
        return pool().FindFileContainingSymbol(symbol)
    except KeyError:
        service, _, method = symbol.rpartition(".")
        return pool().FindServiceByName(service).methods_by_name[method].containing_service.file


def _add_file(response: Any, file: FileDescriptor) -> None:
    """The file and those that it imports, each once."""
    waiting, seen = [file], set()
    while waiting:
        current = waiting.pop()
        if current.name not in seen:
            seen.add(current.name)
            response.file_descriptor_response.file_descriptor_proto.append(current.serialized_pb)
            waiting.extend(current.dependencies)

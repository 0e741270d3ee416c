"""Calls over gRPC without the library."""

from typing import Any

from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.server.grpc.call import UnaryCall


class AtOnce:
    """A method that has its answer."""

    path = "/inference.GRPCInferenceService/ModelInfer"

    def start(self, call: UnaryCall, message: bytes) -> None:
        call.reply(b"answer")

    def write(self, request: InferenceRequest, response: InferenceResponse) -> bytes:
        raise AssertionError("nothing is inferred here")


class CallContext:
    """What the library says of a call."""

    def invocation_metadata(self) -> Any:
        return (("user-agent", "grpc-python/1.68.0 grpc-c/44.0.0 (linux; chttp2)"),)

    def time_remaining(self) -> None:
        return None

    def set_trailing_metadata(self, metadata: object) -> None:
        pass

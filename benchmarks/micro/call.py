"""`server/grpc/call.py`."""

from benchmarks.micro.stage.grpc import AtOnce
from benchmarks.micro.timing.case import Case
from guepard.server.grpc.call import UnaryCall


def cases() -> list[Case]:
    method, metadata = AtOnce(), {"user-agent": "grpc-c/44.0"}

    def begin_and_release() -> None:
        call = UnaryCall(method, metadata, 0, 1_000, lambda size: None)
        call.begin(b"message")
        assert call.is_answered
        call.release()

    return [Case("answered at once", begin_and_release)]

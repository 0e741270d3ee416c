"""`server/grpc/infer_method.py`, in front of an engine that only takes."""

from typing import cast

from benchmarks.micro.stage.grpc import AtOnce
from benchmarks.micro.stage.models import CONFIG, Taken, answers
from benchmarks.micro.stage.requests import executed
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.grpc_payload import request_message
from guepard.core.regions import NOT_ALLOWED
from guepard.core.response import InferenceResponse
from guepard.engine.data_plane import DataPlane
from guepard.engine.served_model import ServedModel
from guepard.protocols.reply_format import BINARY
from guepard.server.grpc.call import UnaryCall
from guepard.server.grpc.infer_method import InferMethod


def cases() -> list[Case]:
    data_plane = DataPlane()
    data_plane.publish({CONFIG.name: cast(ServedModel, Taken())}, {})
    method, message = InferMethod(data_plane, NOT_ALLOWED), request_message(MLP)
    call = UnaryCall(AtOnce(), {}, 0, 1_000, lambda size: None)
    done, response = executed(BINARY), InferenceResponse(CONFIG, (answers(1),))
    return [
        Case("a request", lambda: method.start(call, message)),
        Case("an answer", lambda: method.write(done, response)),
    ]

"""`protocols/grpc_reply.py`."""

from benchmarks.micro.stage.models import CONFIG, answers
from benchmarks.micro.stage.requests import executed
from benchmarks.micro.timing.case import Case
from guepard.core.response import InferenceResponse
from guepard.protocols.grpc_reply import ReplyWriter
from guepard.protocols.reply_format import BINARY, JSON


def cases() -> list[Case]:
    writer = ReplyWriter(CONFIG)
    raw, typed = executed(BINARY), executed(JSON)
    response = InferenceResponse(CONFIG, (answers(1),))
    return [
        Case("raw contents", lambda: writer.write(raw, response)),
        Case("typed contents", lambda: writer.write(typed, response)),
    ]

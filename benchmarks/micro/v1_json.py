"""`protocols/v1_json.py`: predict messages to and from the MLP."""

import json

from benchmarks.micro.stage.models import CONFIG, answers
from benchmarks.micro.stage.requests import executed
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.payload import predict_payload
from guepard.core.response import NOBODY, InferenceResponse
from guepard.protocols.v1_json import PredictForm, V1Codec


def cases() -> list[Case]:
    codec = V1Codec(CONFIG)
    body = predict_payload(MLP).body
    (row,) = json.loads(body)["instances"]
    named = json.dumps({"instances": [{"x": row}] * 8}).encode()
    done = executed()
    done.reply_format = PredictForm.ROWS
    response = InferenceResponse(CONFIG, (answers(1),))
    return [
        Case("read 1 row", lambda: codec.decode_json(body, NOBODY, 1_000)),
        Case("read 8 rows by name", lambda: codec.decode_json(named, NOBODY, 1_000)),
        Case("write 1 row", lambda: codec.encode(done, response)),
    ]

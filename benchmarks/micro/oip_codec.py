"""`protocols/oip_codec.py`: messages to and from the MLP."""

import json

from benchmarks.micro.stage.models import CONFIG, answers
from benchmarks.micro.stage.requests import executed
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.payload import HEADER_LENGTH, binary_payload, json_payload
from guepard.core.response import NOBODY, InferenceResponse
from guepard.protocols.oip_codec import OipCodec
from guepard.protocols.reply_format import BINARY


def cases() -> list[Case]:
    codec = OipCodec(CONFIG)
    flat, binary = json_payload(MLP).body, binary_payload(MLP)
    length = int(binary.headers[HEADER_LENGTH])
    nested = json.loads(flat)
    nested["inputs"][0]["data"] = [nested["inputs"][0]["data"]]
    nested_body = json.dumps(nested).encode()
    as_json, as_bytes = executed(), executed(BINARY)
    response = InferenceResponse(CONFIG, (answers(1),))
    return [
        Case("read JSON", lambda: codec.decode_json(flat, NOBODY, 1_000)),
        Case("read nested JSON", lambda: codec.decode_json(nested_body, NOBODY, 1_000)),
        Case("read binary", lambda: codec.decode_binary(binary.body, length, NOBODY, 1_000)),
        Case("write JSON", lambda: codec.encode(as_json, response)),
        Case("write binary", lambda: codec.encode(as_bytes, response)),
    ]

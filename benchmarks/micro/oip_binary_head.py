"""`protocols/oip_binary_head.py`: heads that are known, laid over a body."""

from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.payload import HEADER_LENGTH, binary_payload
from guepard.core.response import NOBODY
from guepard.protocols import oip_json
from guepard.protocols.oip_binary_head import BinaryHead


def cases() -> list[Case]:
    payload = binary_payload(MLP)
    length = int(payload.headers[HEADER_LENGTH])
    text = payload.body[:length]
    head = BinaryHead(oip_json.decode(text))
    return [
        Case("a body", lambda: head.request(payload.body, length, NOBODY, 1_000)),
        Case("a head never seen before", lambda: BinaryHead(oip_json.decode(text))),
    ]

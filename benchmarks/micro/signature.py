"""`engine/signature.py`."""

from benchmarks.micro.stage.models import CONFIG, TOKENS, config
from benchmarks.micro.stage.requests import request, text_request
from benchmarks.micro.timing.case import Case
from guepard.engine.signature import Signature


def cases() -> list[Case]:
    one, three = Signature(CONFIG), Signature(config(inputs=TOKENS))
    features, text = request(), text_request()
    return [
        Case("1 input", lambda: one.bind(features)),
        Case("3 inputs of free length", lambda: three.bind(text)),
    ]

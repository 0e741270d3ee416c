"""`protocols/v1_messages.py`: the decoders that it makes for the MLP."""

import json

from benchmarks.micro.stage.models import X
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.payload import predict_payload
from guepard.protocols.v1_messages import PredictTypes, has_tensors


def cases() -> list[Case]:
    types = PredictTypes((X,), batched=True)
    body = predict_payload(MLP).body
    named = json.dumps({"instances": [{"x": row} for row in MLP.sample(8).tolist()]}).encode()
    assert types.bare is not None
    bare, by_name = types.bare.decode, types.named.decode
    return [
        Case("parse 1 row", lambda: bare(body)),
        Case("parse 8 rows by name", lambda: by_name(named)),
        Case("tell the protocol of a body", lambda: has_tensors(body)),
    ]

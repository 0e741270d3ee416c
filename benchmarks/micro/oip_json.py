"""`protocols/oip_json.py`."""

import msgspec
import numpy as np
import orjson

from benchmarks.micro.stage.models import Y, answers
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from guepard.protocols.oip_json import encode_array, tensor_from_raw


def cases() -> list[Case]:
    small, large = answers(1).reshape(-1), np.random.default_rng(1).random(10_000, np.float32)
    raw = msgspec.Raw(orjson.dumps(MLP.sample(8).tolist()))
    return [
        Case("write 2 numbers", lambda: encode_array(Y, small)),
        Case("write 10,000 numbers", lambda: encode_array(Y, large)),
        Case("read 8 nested rows", lambda: tensor_from_raw("x", "FP32", [8, 30], raw, "inputs[0]")),
    ]

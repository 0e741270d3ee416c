"""`protocols/number_text.py`: an image of 224 x 224 in a JSON body, compiled, in pieces, and read as a whole.

The case "as a whole" is what reads every shorter body, and what there was before: a list of Python numbers for each.
"""

from collections.abc import Callable
from unittest import mock

import numpy as np
import orjson

from benchmarks.micro.stage.models import config
from benchmarks.micro.timing.case import Case
from guepard.core.response import NOBODY
from guepard.core.tensor import TensorSpec
from guepard.protocols import number_text
from guepard.protocols.oip_codec import OipCodec

SHAPE = (3, 224, 224)
COUNT = 150_528


def cases() -> list[Case]:
    floats = np.random.default_rng(1).normal(size=COUNT).astype(np.float32)
    pixels = np.random.default_rng(1).integers(0, 256, COUNT)
    return [*_cases("FP32", "floats", floats), *_cases("UINT8", "pixels", pixels)]


def _cases(datatype: str, name: str, numbers: np.ndarray) -> list[Case]:
    spec = TensorSpec("x", datatype, SHAPE)
    codec = OipCodec(config(inputs=(spec,)))
    body = orjson.dumps(
        {"inputs": [{"name": "x", "datatype": datatype, "shape": [1, *SHAPE], "data": numbers.tolist()}]}
    )
    cases = [
        Case(f"{name}, as a whole", lambda: codec.decode_json(body, NOBODY, 1_000)),
        Case(f"{name}, in pieces", _without_compiled(lambda: codec.decode_large(body, NOBODY, 1_000, _go_on))),
    ]
    if number_text._compiled is not None:
        cases.append(Case(f"{name}, compiled", lambda: codec.decode_large(body, NOBODY, 1_000, _go_on)))
    return cases


def _without_compiled(work: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        with mock.patch.object(number_text, "_compiled", None):
            work()

    return run


def _go_on() -> None:
    """What a pause is for is not measured here."""

"""`protocols/oip_binary.py`."""

import numpy as np

from benchmarks.micro.stage.models import answers
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from guepard.protocols.oip_binary import decode_array, encode_array


def cases() -> list[Case]:
    numbers = MLP.sample(8).tobytes()
    words = np.array([b"a word of %d" % index for index in range(32)], object)
    strings = bytes(encode_array("BYTES", words))
    small, large = answers(1), np.zeros(1_000_000, np.float32)
    return [
        Case("view FP32", lambda: decode_array("x", "FP32", [8, 30], numbers, 0, len(numbers))),
        Case("read 32 strings", lambda: decode_array("text", "BYTES", [32], strings, 0, len(strings))),
        Case("write FP32", lambda: encode_array("FP32", small)),
        Case("view 4 MB of FP32", lambda: encode_array("FP32", large)),
        Case("write 32 strings", lambda: encode_array("BYTES", words)),
    ]

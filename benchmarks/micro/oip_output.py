"""`protocols/oip_output.py`: words that were kept, and words for a shape that is new."""

from itertools import count

from benchmarks.micro.timing.case import Case
from guepard.core.tensor import TensorSpec
from guepard.protocols.oip_output import OutputWords


def cases() -> list[Case]:
    words = OutputWords(0, TensorSpec("probabilities", "FP32", [2]))
    words.before_data((1, 2))
    rows = count(2)
    return [
        Case("kept", lambda: words.json.get((1, 2)) or words.before_data((1, 2))),
        Case("for a new shape", lambda: words.before_data((next(rows), 2))),
        Case("of bytes, for a new shape", lambda: words.of_bytes((next(rows), 2), 8)),
    ]

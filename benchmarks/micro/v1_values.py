"""`protocols/v1_values.py`."""

from benchmarks.micro.stage.models import X
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from guepard.core.tensor import TensorSpec
from guepard.protocols.v1_values import ValueReader


def cases() -> list[Case]:
    numbers, words = ValueReader(X, batched=True), ValueReader(TensorSpec("text", "BYTES", [1]), batched=True)
    one, eight = MLP.sample(1).tolist(), MLP.sample(8).tolist()
    texts = [[f"a word of {index}"] for index in range(8)]
    return [
        Case("1 row of numbers", lambda: numbers.tensor(one, "instances")),
        Case("8 rows of numbers", lambda: numbers.tensor(eight, "instances")),
        Case("8 rows of text", lambda: words.tensor(texts, "instances")),
    ]

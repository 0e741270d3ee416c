"""`batching/padding.py`: batches of one length and of several, and their answers."""

import numpy as np

from benchmarks.micro.stage.models import TOKENS, config
from benchmarks.micro.stage.requests import PADDING, bound, text_request, texts
from benchmarks.micro.timing.case import Case
from guepard.batching.padding import gather_padded, scatter_padded, token_counts
from guepard.core.padding import CutOutput, Padding
from guepard.engine.signature import Signature


def cases() -> list[Case]:
    mixed = texts(8)
    alike = bound(Signature(config(inputs=TOKENS)), [text_request() for _ in range(8)])
    for each in alike:
        each.length = 128
    cut = Padding(PADDING.inputs, (CutOutput("hidden", 0, 1),))
    hidden = np.zeros((8, 64, 32), np.float32)

    def scatter() -> None:
        for _ in scatter_padded(mixed, [hidden], cut):
            pass

    return [
        Case("a batch of 8 lengths, 3 inputs", lambda: gather_padded(mixed, PADDING)),
        Case("a batch of 8 of one length, 3 inputs", lambda: gather_padded(alike, PADDING)),
        Case("answers of 8 lengths", scatter),
        Case("tokens of 8 lengths", lambda: token_counts(mixed, PADDING)),
    ]

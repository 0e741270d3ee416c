"""What a trial and the server say to each other: an order one way, lines of JSON the other."""

import pickle
from dataclasses import dataclass

import msgspec

from guepard.backends.base import ModelSource
from guepard.core.engine_options import Precision
from guepard.engine.engine_trial.decision import Candidate


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """Try each of `engines` on the model of `source`, beside `reference`, whose precision is that of `source`.

    `homes`: where their backends are, as in the registry. `rows`: how many may share a batch; None: the tensors have no
    batch dimension. `free_size`: of free dimensions. `tried`: what need not be tried again, with precision "" for all
    of an engine. `deadline_ns`: when nobody waits any more, by the monotonic clock.
    """

    source: ModelSource
    reference: str
    engines: tuple[str, ...]
    homes: dict[str, tuple[str, str]]
    rows: int | None
    free_size: int
    deadline_ns: int
    tried: frozenset[tuple[str, str]] = frozenset()

    def pack(self) -> bytes:
        return pickle.dumps(self)

    @staticmethod
    def unpack(data: bytes) -> "TrialOrder":
        """Only for what came from our own server."""
        order = pickle.loads(data)  # noqa: S301 - from the process that started us, over a pipe of its own
        assert isinstance(order, TrialOrder)
        return order


class Begins(msgspec.Struct, frozen=True, tag=True):
    """What happens next, and whatever goes wrong from here on goes wrong with it.

    The reference engine has precision "", as has an engine that is asked what there is to try. `is_last`: nothing more
    comes after it.
    """

    engine: str
    precision: Precision | str
    is_last: bool


class Answers(msgspec.Struct, frozen=True, tag=True):
    """What has begun has loaded and executes. So it does not hang, and from here on the trial keeps to its time."""


class Tried(msgspec.Struct, frozen=True, tag=True):
    candidate: Candidate


class Noted(msgspec.Struct, frozen=True, tag=True):
    """What an engine wrote to the log."""

    text: str


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The whole trial is of no use, for this reason."""

    reason: str


class Done(msgspec.Struct, frozen=True, tag=True):
    """Nothing is left to try."""


Message = Begins | Answers | Tried | Noted | Refused | Done

ENCODER = msgspec.json.Encoder()
DECODER = msgspec.json.Decoder(Message)

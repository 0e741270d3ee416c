"""Why a batch left the queue and why a request failed, in the words that metrics, statistics and logs share.

They are `StrEnum`s: a member hashes and compares as its string, which is what makes counting by reason cheap.
"""

from enum import StrEnum


class ReleaseReason(StrEnum):
    """What made the batcher let a batch go."""

    FULL = "full"
    PREFERRED = "preferred"
    DELAY = "delay"
    IDLE = "idle"
    SHAPE = "shape"
    RETRY = "retry"


class FailureReason(StrEnum):
    """Why a request ended without an answer of the model. The first four are Triton's, and so is the spelling."""

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"
    TIMEOUT = "TIMEOUT"
    INVALID = "INVALID"


class LossReason(StrEnum):
    """Why a process instance was given up."""

    EXITED = "exited"
    STOPPED = "stopped"
    HUNG = "hung"
    MEMORY = "memory"
    GARBLED = "garbled"

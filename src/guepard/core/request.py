"""One inference request on its way through the engine, and the moves of its life."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from guepard.core.phases import BatchStamps
from guepard.core.response import ResponseSender
from guepard.core.tensor import Array, Tensor


class RequestState(Enum):
    """Triton's InferenceRequest::State. RELEASED: its one final answer has been given."""

    INITIALIZED = "INITIALIZED"
    PENDING = "PENDING"
    EXECUTING = "EXECUTING"
    RELEASED = "RELEASED"
    FAILED_ENQUEUE = "FAILED_ENQUEUE"


MOVES: dict[RequestState, frozenset[RequestState]] = {
    RequestState.INITIALIZED: frozenset({RequestState.PENDING, RequestState.FAILED_ENQUEUE}),
    RequestState.PENDING: frozenset({RequestState.EXECUTING, RequestState.RELEASED}),
    RequestState.EXECUTING: frozenset({RequestState.RELEASED}),
    RequestState.RELEASED: frozenset(),
    RequestState.FAILED_ENQUEUE: frozenset(),
}

NO_PARAMETERS: Mapping[str, Any] = {}


class InferenceRequest:
    """Fields, grouped by who writes them.

    The front end: `tensors` as they came, `id`, `parameters`, `requested_outputs` (names, None for all),
    `timeout_ns` (0 for the model's default), `priority`, `sender`, `reply_format` (the front end's own note on how to
    write the answer; the engine only carries it), `request_start`.
    The data plane: `arrays`, in the order of the model's inputs with None for an optional one that was left out;
    `rows`; `batch_key` (requests of one batch have equal keys); `deadline`.
    The batcher: `state`, `queue_start`, `stamps` (of the execution that answered it), `whole` (the request that this
    one is a part of, when that was larger than a batch), `length` (of its padded inputs, where the model has some).
    All times are nanoseconds of the monotonic clock.
    """

    __slots__ = (
        "arrays",
        "batch_key",
        "deadline",
        "id",
        "length",
        "parameters",
        "priority",
        "queue_start",
        "reply_format",
        "request_start",
        "requested_outputs",
        "rows",
        "sender",
        "stamps",
        "state",
        "tensors",
        "timeout_ns",
        "whole",
    )

    def __init__(self, tensors: Sequence[Tensor], sender: ResponseSender, request_start: int) -> None:
        self.tensors = tensors
        self.sender = sender
        self.request_start = request_start
        self.id: str | None = None
        self.parameters = NO_PARAMETERS
        self.requested_outputs: tuple[str, ...] | None = None
        self.reply_format: Any = None
        self.timeout_ns = 0
        self.priority = 0
        self.state = RequestState.INITIALIZED
        self.stamps: BatchStamps | None = None
        self.whole: InferenceRequest | None = None
        # Left unset until the data plane, and for queue_start and length the batcher, has been there.
        self.arrays: Sequence[Array | None]
        self.rows: int
        self.batch_key: object
        self.deadline: int
        self.queue_start: int
        self.length: int

    def resemble(self, other: "InferenceRequest") -> None:
        """Take over what a front end wrote on `other` beside its tensors."""
        self.id = other.id
        self.parameters = other.parameters
        self.requested_outputs = other.requested_outputs
        self.reply_format = other.reply_format
        self.timeout_ns = other.timeout_ns
        self.priority = other.priority

    @property
    def is_released(self) -> bool:
        return self.state is RequestState.RELEASED

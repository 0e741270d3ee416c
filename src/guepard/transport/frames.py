"""What a server and one of its process instances say to each other.

Two sockets lead to the process. Over the data socket batches go one at a time: `Load` → `Loaded`, then `Execute` →
`Result`, or `Item`s and an `End` for a stream, each `Item` answered by `More` or `Stop`; instead of each of these may
come a `Failed`. Over the control socket, at any time: questions, their answers, log records, and that nobody waits for
a batch any more.

Tensors lie in shared memory, or within the frame where they are small or have no fixed size. What comes from a process
is checked when it is decoded, as a model may have written over anything; what goes to it is trusted.
"""

from typing import Any

from msgspec import Struct

from guepard.core.model_config import ModelDescription


class Frame(Struct, frozen=True, array_like=True, gc=False, tag=True):
    """One message."""


class Place(Struct, frozen=True, array_like=True, gc=False):
    """Where a tensor is: at `offset` of the sender's memory, or in `data` where `offset` is -1.

    `data` of BYTES is as in Triton's binary tensor data.
    """

    datatype: str
    shape: tuple[int, ...]
    offset: int
    size_bytes: int
    data: bytes = b""


class RequestNote(Struct, frozen=True, array_like=True, gc=False):
    """What a model may know about one request of a batch."""

    rows: int
    deadline_ns: int
    id: str | None = None
    parameters: dict[str, Any] = {}
    requested_outputs: tuple[str, ...] | None = None
    length: int | None = None


# To the process


class Load(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """`source` is a pickled ModelSource: from us, and only ever in this direction."""

    backend: str
    source: bytes


class Execute(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """`flags` is where in the input memory one byte for each request turns 1 when nobody waits for it any more; -1:
    there are none.

    `released` are tickets of results whose memory nobody looks at any more. `number` is the batch's, from 1 on.
    """

    inputs: tuple[Place | None, ...]
    requests: tuple[RequestNote, ...]
    flags: int
    released: tuple[int, ...]
    is_stream: bool = False
    number: int = 0


class More(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """The item of a stream has been taken: go on."""


class Stop(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """Nobody wants more of the stream."""


class AskHealth(Frame, frozen=True, array_like=True, gc=False, tag=True):
    pass


class Terminate(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """Nobody waits for the batch of that number any more. It may be over, or not have come yet."""

    number: int


class Trim(Frame, frozen=True, array_like=True, gc=False, tag=True):
    pass


ToWorker = Load | Execute | More | Stop | AskHealth | Terminate | Trim


# From the process


class Loaded(Frame, frozen=True, array_like=True, gc=False, tag=True):
    description: ModelDescription


class Refused(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """The model cannot be loaded, for a reason that clients may read."""

    reason: str


class Result(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """The outputs of a batch: within one stretch of memory, from whose beginning their offsets count.

    `ticket` names that stretch when it is released; there is none where `size_bytes` is 0.
    """

    ticket: int
    offset: int
    size_bytes: int
    outputs: tuple[Place, ...]


class Item(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """One response of a stream. Its memory is the process's again with the next `More` or `Stop`."""

    offset: int
    size_bytes: int
    outputs: tuple[Place, ...]


class End(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """The stream has ended."""


class Failed(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """The batch failed. `traceback` is of what the model raised, for the log; empty where that is nobody's concern.

    `message` is empty for an exception of the model's own, whose type is then in `kind`.
    """

    code: str
    message: str
    row: int | None
    traceback: str
    kind: str = ""


class Health(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """`ailment`: the type of what the model's `health` raised and its text; None when it is well."""

    ailment: tuple[str, str] | None


class Record(Frame, frozen=True, array_like=True, gc=False, tag=True):
    """A log record. `trace` is the text of its exception, if it has one; `fields` are the record's own."""

    logger: str
    level: int
    text: str
    trace: str
    fields: dict[str, str | int | float | bool | None] = {}


FromWorker = Loaded | Refused | Result | Item | End | Failed | Health | Record

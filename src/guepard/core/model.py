"""The class that a user writes to serve Python code. Public as `guepard.Model`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from logging import Logger
from pathlib import Path
from typing import Any, ClassVar

from guepard.core.tensor import Array, TensorSpec


class RequestInfo:
    """What a model may know about one request of the batch: `rows` is the slice of the batch that belongs to it."""

    __slots__ = ("_request", "rows")

    def __init__(self, request: Any, rows: slice) -> None:
        self._request = request
        self.rows = rows

    @property
    def id(self) -> str | None:
        return self._request.id  # type: ignore[no-any-return]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """A copy: what a model does to it reaches no other request."""
        return dict(self._request.parameters)

    @property
    def requested_outputs(self) -> tuple[str, ...] | None:
        """Names of the outputs that the client asked for, None for all."""
        return self._request.requested_outputs  # type: ignore[no-any-return]

    @property
    def deadline_ns(self) -> int:
        """When the client stops waiting, in nanoseconds of `time.monotonic_ns`."""
        return self._request.deadline  # type: ignore[no-any-return]

    @property
    def length(self) -> int | None:
        """How much of the padded inputs is the request's own, None for a model without padding."""
        return getattr(self._request, "length", None)

    @property
    def is_cancelled(self) -> bool:
        """True once an answer is of no use any more: the client left or its deadline has passed."""
        return self._request.is_released  # type: ignore[no-any-return]


@dataclass(slots=True)
class ModelContext:
    """What `load` and `predict` are given. `requests` is empty outside `predict`."""

    name: str
    version: str
    path: Path
    parameters: Mapping[str, Any]
    logger: Logger
    device: str
    threads: int
    requests: Sequence[RequestInfo] = ()


class Model:
    """Base class of Python models.

        class Double(guepard.Model):
            inputs = [guepard.Tensor("x", "FP32", [4])]      # dims without the batch
            outputs = [guepard.Tensor("y", "FP32", [4])]
            max_batch_size = 32

            def predict(self, inputs, ctx):
                return {"y": inputs["x"] * 2}

    `predict` gets {name: array of the whole batch} and returns {name: array}; as a generator it yields several such
    answers. With `max_batch_size` 0 tensors have no batch dimension and each request runs alone. Any method may be
    `async def`. Raise `guepard.InputError` to answer 400; every other exception answers 500. The arrays that `predict`
    returns are copied, so the same ones may be returned again.

    With `padding = {"inputs": {"ids": 0}, "outputs": {"hidden": 0}}` requests that differ in the length of `ids` share
    a batch: shorter ones are filled up with 0 at their end, and along dimension 0, the batch not counted, `hidden` is
    cut back to each request's own length. `ctx.requests` tells the lengths.
    """

    inputs: ClassVar[Sequence[TensorSpec]] = ()
    outputs: ClassVar[Sequence[TensorSpec]] = ()
    max_batch_size: ClassVar[int] = 0
    idempotent: ClassVar[bool] = False
    padding: ClassVar[Mapping[str, Any]] = {}

    def load(self, ctx: ModelContext) -> Any:
        """Called once per instance, before its first `predict`."""

    def predict(self, inputs: dict[str, Array], ctx: ModelContext) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define predict(self, inputs, ctx)")

    def health(self) -> Any:
        """Raise to turn the model not-ready. Asked every few seconds, on another thread than `predict` runs on."""

    def unload(self) -> Any:
        """Called once per instance, after its last `predict`."""

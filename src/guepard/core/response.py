"""Answers of the engine and the one interface through which they leave it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from guepard.core.errors import GuepardError
from guepard.core.tensor import Array, TensorSpec

if TYPE_CHECKING:
    from guepard.core.model_config import ModelConfig
    from guepard.core.request import InferenceRequest


class InferenceResponse(msgspec.Struct, frozen=True, eq=False):
    """One response. `outputs` stand in the order of `config.outputs`; arrays are views that nobody writes to."""

    config: "ModelConfig"
    outputs: Sequence[Array]
    parameters: Mapping[str, Any] | None = None

    def chosen(self, wanted: Sequence[str] | None) -> Sequence[tuple[TensorSpec, Array]]:
        """The outputs named by `wanted`, in that order, each with its declaration; all of them for None."""
        specs, outputs = self.config.outputs, self.outputs
        if wanted is None:
            return ((specs[0], outputs[0]),) if len(outputs) == 1 else list(zip(specs, outputs, strict=True))
        by_name = {spec.name: (spec, array) for spec, array in zip(specs, outputs, strict=True)}
        return [by_name[name] for name in wanted]


class ResponseSender(Protocol):
    """Where the answers of one request go: 0…n responses, then exactly one end.

    The end is either a `send` with `final` true, a `finish` after the last of several responses, or a `fail`; nothing
    follows it. All three are called on the event loop's thread and must not raise.
    """

    def send(self, request: "InferenceRequest", response: InferenceResponse, final: bool) -> None: ...

    def finish(self, request: "InferenceRequest") -> None: ...

    def fail(self, request: "InferenceRequest", error: GuepardError) -> None: ...


class _Nobody:
    """The ResponseSender of requests that nobody waits for."""

    def send(self, request: "InferenceRequest", response: InferenceResponse, final: bool) -> None:
        pass

    def finish(self, request: "InferenceRequest") -> None:
        pass

    def fail(self, request: "InferenceRequest", error: GuepardError) -> None:
        pass


NOBODY: ResponseSender = _Nobody()

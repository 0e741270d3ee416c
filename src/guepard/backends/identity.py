"""Answers with what it was asked: for trying clients, and for measuring everything around a model."""

from collections.abc import Iterator, Sequence

from guepard.backends.base import Inputs, ModelSource, Outputs
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import TensorSpec

AUTO_MAX_BATCH_SIZE = 64


class IdentityBackend:
    """Output i is input i. The tensors are those of the configuration, with dims that leave the batch out."""

    name = "identity"

    def load(self, source: ModelSource) -> "IdentityModel":
        outputs = source.outputs or source.inputs
        _check(source.inputs, outputs)
        policy = source.policy
        return IdentityModel(
            ModelDescription(
                platform="identity",
                backend=self.name,
                inputs=source.inputs,
                outputs=outputs,
                max_batch_size=AUTO_MAX_BATCH_SIZE if policy.max_batch_size is None else policy.max_batch_size,
                idempotent=True if policy.idempotent is None else policy.idempotent,
                releases_gil=False,
            )
        )


class IdentityModel:
    """Its own executor, having no state to share or to protect."""

    buffers = None

    def __init__(self, description: ModelDescription) -> None:
        self.description = description

    def executor(self) -> "IdentityModel":
        return self

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        return [array for array in inputs if array is not None]

    def execute_stream(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Iterator[Outputs]:
        yield self.execute(inputs, requests)

    def terminate(self) -> None:
        """Over before it could be ended."""

    def wide_executor(self) -> None:
        """None: there is nothing to compute."""

    def trim(self) -> None:
        """Nothing is held."""

    def health(self) -> None:
        """Always well."""

    def close(self) -> None:
        """Nothing to let go of."""


def _check(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    if not inputs:
        raise LoadError("the identity backend needs inputs in the configuration: a list of name, datatype and dims")
    optional = next((spec for spec in inputs if spec.optional), None)
    if optional is not None:
        raise LoadError(f"identity input {optional.name!r} cannot be optional: its output would have no value")
    if len(outputs) != len(inputs):
        raise LoadError(f"the identity backend has {len(inputs)} inputs and {len(outputs)} outputs; declare as many")
    for source, target in zip(inputs, outputs, strict=True):
        if (source.datatype, source.dims) != (target.datatype, target.dims):
            raise LoadError(
                f"identity output {target.name!r} ({target.datatype.name} {list(target.dims)}) must be like "
                f"input {source.name!r} ({source.datatype.name} {list(source.dims)})"
            )

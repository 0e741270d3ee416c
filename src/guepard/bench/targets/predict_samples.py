"""Requests of V1's predict in a user's files, read as the server would read them."""

from collections.abc import Sequence
from contextlib import suppress

import orjson

from guepard.bench.targets.model_metadata import ModelMetadata
from guepard.bench.targets.sample_files import Sample
from guepard.bench.targets.tensor_samples import check_tensor
from guepard.core.errors import ConfigurationError, GuepardError, Unsupported
from guepard.core.model_config import DynamicBatching, ModelConfig, TimeoutPolicy
from guepard.core.response import NOBODY
from guepard.core.tensor import Tensor, TensorSpec
from guepard.protocols.v1_json import SIGNATURE, V1Codec


class PredictReader:
    """Reads the requests to one model; without metadata only their outline. Raises (read): ConfigurationError."""

    def __init__(self, model: ModelMetadata | None) -> None:
        self._model = model
        self._codec: V1Codec | None = None
        if model is not None:
            with suppress(Unsupported):  # of names that our codec cannot spell; the server's may
                self._codec = V1Codec(_config(model))

    def read(self, sample: Sample) -> Sequence[Tensor]:
        """Its tensors, none where they cannot be known."""
        document = orjson.loads(sample.content)
        if not isinstance(document, dict) or not ("instances" in document or "inputs" in document):
            raise ConfigurationError(f"{sample.where}: expected an object with instances (rows) or inputs (columns)")
        if self._codec is None or document.get("signature_name") not in (None, "", SIGNATURE):
            return ()
        assert self._model is not None
        try:
            tensors = self._codec.decode_json(sample.content, NOBODY, 0).tensors
        except GuepardError as error:
            raise ConfigurationError(f"{sample.where}: {error.message}") from None
        for tensor in tensors:
            check_tensor(sample.where, tensor.name, tensor.datatype, tensor.array.shape, self._model)
        return tensors


def _config(model: ModelMetadata) -> ModelConfig:
    """As far as the codec reads it. Which inputs may be left out is not told, so all may, where there are several."""
    several = len(model.inputs) > 1
    return ModelConfig(
        name=model.name,
        version="",
        platform="",
        backend="",
        inputs=tuple(TensorSpec(one.name, one.datatype, one.shape, optional=several) for one in model.inputs),
        outputs=(),
        max_batch_size=0,
        instance_count=1,
        execution="thread",
        dynamic_batching=DynamicBatching(),
        timeout=TimeoutPolicy(),
        max_concurrency=1,
        idempotent=True,
        decoupled=False,
        parameters={},
    )

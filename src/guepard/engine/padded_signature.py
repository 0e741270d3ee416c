"""Requests of models with padding: which lengths go together in one, and which requests may meet."""

from guepard.core.errors import InputError
from guepard.core.model_config import ModelConfig
from guepard.core.padding import Padding
from guepard.core.request import InferenceRequest
from guepard.engine.signature import Signature

_EMPTY = "empty"  # a key: what a model makes of no tokens at all, padding would change


def signature_for(config: ModelConfig) -> Signature:
    return Signature(config) if config.padding is None else PaddedSignature(config, config.padding)


class PaddedSignature(Signature):
    """`Signature`, whose `batch_key` leaves the padded dimensions out."""

    __slots__ = ("_key_is_fixed", "_padding")

    def __init__(self, config: ModelConfig, padding: Padding) -> None:
        super().__init__(config)
        self._padding = padding
        padded = {each.place for each in padding.inputs}
        self._key_is_fixed = not any(
            spec.optional or (spec.free and index not in padded) for index, spec in enumerate(config.inputs)
        )

    def bind(self, request: InferenceRequest) -> None:
        """As `Signature.bind`. Raises: InputError, too, when two padded inputs differ in length, with both."""
        super().bind(request)
        arrays = request.arrays
        length, first = -1, ""
        for name, index, axis, _ in self._padding.inputs:
            array = arrays[index]
            if array is None:
                continue
            if length < 0:
                length, first = array.shape[axis], name
            elif array.shape[axis] != length:
                raise InputError(
                    f"input {name!r} has length {array.shape[axis]} and input {first!r} {length}; the model pads both "
                    "together, so send them equally long"
                )
        if not length:
            request.batch_key = (_EMPTY, request.batch_key)
        elif self._key_is_fixed:
            request.batch_key = None
        else:
            key = [None if array is None else list(array.shape[1:]) for array in arrays]
            for _, index, axis, _ in self._padding.inputs:
                dims = key[index]
                if dims is not None:
                    dims[axis - 1] = -1
            request.batch_key = tuple([None if dims is None else tuple(dims) for dims in key])

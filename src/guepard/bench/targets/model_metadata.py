"""What a model says of its inputs, whichever protocol it says it in."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from guepard.bench.targets.target_refused import TargetRefused
from guepard.core.datatypes import DATATYPES

# TensorFlow's DataType to OIP's names, where they are not the same behind `DT_`.
_FROM_TENSORFLOW = {
    "HALF": "FP16",
    "FLOAT": "FP32",
    "DOUBLE": "FP64",
    "BFLOAT16": "BF16",
    "STRING": "BYTES",
}

_SAMPLES = "give whole requests with --data"


class InputMetadata(NamedTuple):
    """One input. -1 in `shape` is a free dimension; a free first one is taken for the batch."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    @property
    def has_batch(self) -> bool:
        return bool(self.shape) and self.shape[0] == -1

    def fits(self, shape: Sequence[int]) -> bool:
        return len(shape) == len(self.shape) and all(
            free in (-1, dim) for free, dim in zip(self.shape, shape, strict=True)
        )


class ModelMetadata(NamedTuple):
    """`version`: the one that serves, if the server tells of exactly one."""

    name: str
    version: str | None
    inputs: tuple[InputMetadata, ...]

    def input(self, name: str) -> InputMetadata | None:
        return next((one for one in self.inputs if one.name == name), None)


def from_oip(name: str, document: Any) -> ModelMetadata:
    """OIP's model metadata in JSON. Raises: TargetRefused for what is none."""
    try:
        inputs = [(one["name"], one["datatype"], one["shape"]) for one in document["inputs"]]
        versions = document.get("versions") or ()
    except (TypeError, KeyError, AttributeError):
        raise TargetRefused(f"model {name!r}: its metadata are not those of the Open Inference Protocol") from None
    return _checked(name, versions, inputs)


def from_message(name: str, message: Any) -> ModelMetadata:
    """The same as an `inference.ModelMetadataResponse`. Raises: TargetRefused."""
    return _checked(name, message.versions, [(one.name, one.datatype, list(one.shape)) for one in message.inputs])


def from_signature(name: str, document: Any) -> ModelMetadata:
    """TensorFlow Serving's metadata: the signature `serving_default`, or the only one. Raises: TargetRefused."""
    try:
        signatures = document["metadata"]["signature_def"]["signature_def"]
        signature = signatures.get("serving_default") or next(iter(signatures.values()))
        inputs = [
            (key, _datatype(one["dtype"]), _dims(one["tensor_shape"])) for key, one in signature["inputs"].items()
        ]
        version = document.get("model_spec", {}).get("version")
    except (TypeError, KeyError, AttributeError, StopIteration, ValueError):
        raise TargetRefused(
            f"model {name!r}: its metadata are not those of TensorFlow Serving, or leave shapes open; {_SAMPLES}"
        ) from None
    return _checked(name, [version] if version else [], inputs)


def _datatype(dtype: str) -> str:
    plain = dtype.removeprefix("DT_")
    return _FROM_TENSORFLOW.get(plain, plain)


def _dims(shape: Any) -> list[int]:
    """64-bit integers are text in protobuf's JSON. Raises: ValueError for a shape whose rank is open."""
    if shape.get("unknown_rank"):
        raise ValueError("unknown rank")
    return [int(dim["size"]) for dim in shape.get("dim", ())]


def _checked(name: str, versions: Iterable[Any], inputs: Sequence[tuple[Any, Any, Any]]) -> ModelMetadata:
    if not inputs:
        raise TargetRefused(f"model {name!r} tells of no inputs; {_SAMPLES}")
    found = []
    for label, datatype, shape in inputs:
        if datatype not in DATATYPES:
            raise TargetRefused(f"model {name!r}: input {label!r} has the unknown datatype {datatype!r}; {_SAMPLES}")
        if not isinstance(shape, list) or not all(isinstance(dim, int) and dim >= -1 for dim in shape):
            raise TargetRefused(f"model {name!r}: input {label!r} has no shape but {shape!r}; {_SAMPLES}")
        found.append(InputMetadata(str(label), datatype, tuple(shape)))
    several = [str(version) for version in versions]
    return ModelMetadata(name, several[0] if len(several) == 1 else None, tuple(found))

"""The JSON shapes of a predict request, made for one model: TensorFlow Serving's row and column formats, KServe V1.

The types say how deep each value nests and which numbers fit it, so that parsing is checking, as in `oip_messages.py`.
Source: TensorFlow Serving, "RESTful API", "Predict API"; KServe, "V1 Protocol".
"""

import re
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from guepard.core.errors import Unsupported
from guepard.core.tensor import TensorSpec
from guepard.protocols.oip_messages import ELEMENT_TYPES, Parameters, ShortText, nested

_TENSORS = re.compile(rb'\s*\[\s*(\{(?!\s*"b64"\s*:)|\])')

Instances = TypeVar("Instances")
Inputs = TypeVar("Inputs")


class Base64(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`{"b64": "…"}`: a BYTES element that need not be UTF-8."""

    b64: bytes


class WirePredict(msgspec.Struct, Generic[Instances, Inputs], gc=False):
    instances: Instances | UnsetType = UNSET
    inputs: Inputs | UnsetType = UNSET
    signature_name: ShortText | None = None
    parameters: Parameters | None = None


Decoder = msgspec.json.Decoder[WirePredict[Any, Any]]


def raw_decoder() -> Decoder:
    """For a first look: which format, and what the values begin with."""
    return _decoder(msgspec.Raw, msgspec.Raw)


def has_tensors(body: bytes | bytearray | memoryview) -> bool:
    """Whether `inputs` is a list of objects that are no Base64, or empty: a request of OIP V2."""
    try:
        raw = _first_look.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False
    return isinstance(raw.inputs, msgspec.Raw) and _TENSORS.match(memoryview(raw.inputs)) is not None


class PredictTypes:
    """What the messages to a model with these inputs look like.

    A row of an input nests as `row_dims` say. Where those are all 1, it may be the element itself as well.
    Without batches the rows are what the tensor's first dimension counts, and an input without dimensions has none.
    Raises: Unsupported for a name that needs escapes in JSON.
    """

    def __init__(self, inputs: Sequence[TensorSpec], batched: bool) -> None:
        self.fields = [f"input_{index}" for index in range(len(inputs))]
        self.has_rows = batched or all(spec.dims for spec in inputs)
        values = [_row_type(spec, row_dims(spec, batched)) for spec in inputs]
        columns = [
            nested(value, 1) if batched or spec.dims else value for spec, value in zip(inputs, values, strict=True)
        ]
        self.row = self._struct("Row", inputs, values)
        self.columns = self._struct("Columns", inputs, columns)
        rows: Any = nested(self.row, 1)
        self.named: Decoder = _decoder(rows if self.has_rows else msgspec.Raw, self.columns)
        self.bare: Decoder | None = None
        if len(inputs) == 1:
            self.bare = _decoder(nested(values[0], 1) if self.has_rows else msgspec.Raw, columns[0])

    def _struct(self, name: str, inputs: Sequence[TensorSpec], types: list[Any]) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for spec, field, kind in sorted(zip(inputs, self.fields, types, strict=True), key=lambda one: one[0].optional):
            fields.append((field, kind | UnsetType, UNSET) if spec.optional else (field, kind))
        names = {field: spec.name for spec, field in zip(inputs, self.fields, strict=True)}
        try:
            return msgspec.defstruct(name, fields, rename=names, forbid_unknown_fields=True, gc=False)
        except ValueError:  # quotes, backslashes and control characters
            told = ", ".join(repr(name) for name in names.values())
            raise Unsupported(f"predict cannot spell the input names {told}; use the V2 infer route") from None


def row_dims(spec: TensorSpec, batched: bool) -> tuple[int, ...]:
    """The dimensions of one row of the input."""
    return spec.dims if batched else spec.dims[1:]


def are_ones(dims: Sequence[int]) -> bool:
    """Whether a row of `dims` is one element in brackets, which may then be left out."""
    return bool(dims) and all(dim == 1 for dim in dims)


def _row_type(spec: TensorSpec, dims: tuple[int, ...]) -> Any:
    element = str | Base64 if spec.datatype.kind == "bytes" else ELEMENT_TYPES[spec.datatype.name]
    rows = nested(element, len(dims))
    return rows | element if are_ones(dims) else rows


def _decoder(instances: Any, inputs: Any) -> Decoder:
    generic: Any = WirePredict
    return msgspec.json.Decoder(generic[instances, inputs])


_first_look = raw_decoder()

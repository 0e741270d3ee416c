"""What an ONNX file says of its inputs and outputs, read from the file itself.

For engines that do not tell names of dimensions and metadata. Weights are stepped over. The nodes are like those of
ONNX Runtime's `get_inputs()`, so that whatever reads those reads these.

Source: onnx.proto (field numbers).
"""

import mmap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from guepard.backends.protobuf_fields import Buffer, fields, numbers
from guepard.core.errors import LoadError

_MODEL_GRAPH, _MODEL_METADATA = 7, 14
_GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT, _GRAPH_SPARSE = 5, 11, 12, 15
_TENSOR_NAME, _SPARSE_VALUES = 8, 1
_VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR = 1, 2, 1
_TENSOR_ELEMENT, _TENSOR_SHAPE, _SHAPE_DIM = 1, 2, 1
_DIM_VALUE, _DIM_NAME = 1, 2
_KEY, _VALUE = 1, 2

# TensorProto.DataType, in ONNX Runtime's words.
_TYPES = {
    1: "tensor(float)",
    2: "tensor(uint8)",
    3: "tensor(int8)",
    4: "tensor(uint16)",
    5: "tensor(int16)",
    6: "tensor(int32)",
    7: "tensor(int64)",
    8: "tensor(string)",
    9: "tensor(bool)",
    10: "tensor(float16)",
    11: "tensor(double)",
    12: "tensor(uint32)",
    13: "tensor(uint64)",
    16: "tensor(bfloat16)",
}


class OnnxValue(NamedTuple):
    """An input or output. `shape` None: the file does not say; a free dimension is its name, or None."""

    name: str
    type: str
    shape: Sequence[int | str | None] | None


class OnnxSignature(NamedTuple):
    """In the order of the file. Inputs that have a value in the file are left out, as no caller has to give them."""

    inputs: tuple[OnnxValue, ...]
    outputs: tuple[OnnxValue, ...]
    metadata: Mapping[str, str]


def read_signature(model: Path) -> OnnxSignature:
    """Raises: LoadError for what is not a well-formed ONNX model. Cost: as that of `check_external_data`."""
    try:
        with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _signature(data)
    except OSError as error:
        raise LoadError(f"cannot read {model.name}: {error.strerror}") from None
    except ValueError:
        raise LoadError(f"{model.name} is not a valid ONNX model: the file is damaged or of another format") from None


def _signature(data: Buffer) -> OnnxSignature:
    inputs: list[OnnxValue] = []
    outputs: list[OnnxValue] = []
    given: set[str] = set()
    metadata: dict[str, str] = {}
    for number, start, end in fields(data, 0, len(data)):
        if number == _MODEL_METADATA:
            entry = {field: _text(data, first, last) for field, first, last in fields(data, start, end)}
            metadata[entry.get(_KEY, "")] = entry.get(_VALUE, "")
        elif number == _MODEL_GRAPH:
            for field, first, last in fields(data, start, end):
                if field == _GRAPH_INPUT:
                    inputs.append(_value(data, first, last))
                elif field == _GRAPH_OUTPUT:
                    outputs.append(_value(data, first, last))
                elif field == _GRAPH_INITIALIZER:
                    given.update(_texts(data, first, last, _TENSOR_NAME))
                elif field == _GRAPH_SPARSE:
                    for low, high in _only(data, first, last, _SPARSE_VALUES):
                        given.update(_texts(data, low, high, _TENSOR_NAME))
    return OnnxSignature(tuple(value for value in inputs if value.name not in given), tuple(outputs), metadata)


def _value(data: Buffer, start: int, end: int) -> OnnxValue:
    kind, shape = "", None
    for first, last in _only(data, start, end, _VALUE_TYPE):
        kind = "no tensor"  # a sequence, a map, an optional value
        for low, high in _only(data, first, last, _TYPE_TENSOR):
            element = next(numbers(data, low, high, _TENSOR_ELEMENT), 0)
            kind = _TYPES.get(element, f"tensor of type {element}")
            for shape_start, shape_end in _only(data, low, high, _TENSOR_SHAPE):
                shape = [_dim(data, *dim) for dim in _only(data, shape_start, shape_end, _SHAPE_DIM)]
    return OnnxValue(next(_texts(data, start, end, _VALUE_NAME), ""), kind, shape)


def _dim(data: Buffer, start: int, end: int) -> int | str | None:
    size = next(numbers(data, start, end, _DIM_VALUE), -1)
    if 0 <= size < 1 << 63:  # negative ones, which are as large as that here, are free
        return size
    return next(_texts(data, start, end, _DIM_NAME), "") or None


def _only(data: Buffer, start: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    """Where the length-delimited fields of one number lie."""
    return ((first, last) for found, first, last in fields(data, start, end) if found == number)


def _texts(data: Buffer, start: int, end: int, number: int) -> Iterator[str]:
    return (_text(data, first, last) for first, last in _only(data, start, end, number))


def _text(data: Buffer, start: int, end: int) -> str:
    return data[start:end].decode()

"""The JSON shapes of an OIP inference request, and the decoders that check datatypes, ranges and depth while parsing.

No value that would wrap or overflow reaches numpy: msgspec checks each number against its datatype's range in C while
it parses, or leaves that to FlatNumbers, which does. Source: Open Inference Protocol V2, "Inference Request"; Triton's
binary tensor data extension.
"""

import re
from types import GenericAlias
from typing import Annotated, Any, Generic, NoReturn, TypeVar

import msgspec
from msgspec import Meta

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError

Data = TypeVar("Data")

# The smallest magnitudes that round to infinity: half a unit in the last place above the largest finite value.
FP16_BOUND = 65_520.0
FP32_BOUND = 3.4028235677973366e38
BF16_BOUND = 3.3961775292304601e38


MAX_RANK = 32
MAX_TENSORS = 1_024
MAX_PARAMETERS = 1_024
MAX_TEXT = 1_024
MAX_ID = 8_192

# Bounds on what is multiplied, compared, quoted in errors and written to logs, where a whole body of it would hurt.
Shape = Annotated[list[Annotated[int, Meta(ge=0, le=2**63 - 1)]], Meta(max_length=MAX_RANK)]
ShortText = Annotated[str, Meta(max_length=MAX_TEXT)]
Id = Annotated[str, Meta(max_length=MAX_ID)]
Parameters = Annotated[dict[ShortText, Any], Meta(max_length=MAX_PARAMETERS)]


class WireTensor(msgspec.Struct, Generic[Data], gc=False):
    name: ShortText
    shape: Shape
    datatype: ShortText
    data: Data | msgspec.UnsetType = msgspec.UNSET
    parameters: Parameters | None = None


class WireOutput(msgspec.Struct, gc=False):
    name: ShortText
    parameters: Parameters | None = None


class WireRequest(msgspec.Struct, Generic[Data], gc=False):
    inputs: Annotated[list[WireTensor[Data]], Meta(max_length=MAX_TENSORS)]
    id: Id | None = None
    parameters: Parameters | None = None
    outputs: Annotated[list[WireOutput], Meta(max_length=MAX_TENSORS)] | None = None


def _integers(bits: int, signed: bool) -> Any:
    if signed:
        return Annotated[int, Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]
    if bits == 64:  # msgspec's bounds must fit an int64; numpy refuses what is above 2**64 - 1
        return Annotated[int, Meta(ge=0)]
    return Annotated[int, Meta(ge=0, le=2**bits - 1)]


ELEMENT_TYPES: dict[str, Any] = {
    "BOOL": bool | Annotated[int, Meta(ge=0, le=1)],
    "FP16": Annotated[float, Meta(gt=-FP16_BOUND, lt=FP16_BOUND)],
    "FP32": Annotated[float, Meta(gt=-FP32_BOUND, lt=FP32_BOUND)],
    "BF16": Annotated[float, Meta(gt=-BF16_BOUND, lt=BF16_BOUND)],
    "FP64": float,
    "BYTES": str,
    **{f"INT{bits}": _integers(bits, signed=True) for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": _integers(bits, signed=False) for bits in (8, 16, 32, 64)},
}

_request_decoders: dict[str | None, msgspec.json.Decoder[WireRequest[Any]]] = {}
_data_decoders: dict[tuple[str, int], msgspec.json.Decoder[Any]] = {}


def request_decoder(datatype: str | None) -> "msgspec.json.Decoder[WireRequest[Any]]":
    """A decoder for requests whose inputs all hold flat data of `datatype`; None leaves `data` as raw JSON.

    Whether a number is within its datatype is left to whoever makes the array, who sees each of them anyway.
    """
    if datatype not in _request_decoders:
        generic: Any = WireRequest
        data = msgspec.Raw if datatype is None else list[_number(datatype)]  # type: ignore[misc]
        _request_decoders[datatype] = msgspec.json.Decoder(generic[data])
    return _request_decoders[datatype]


def _number(datatype: str) -> type:
    return float if DATATYPES[datatype].kind == "float" else int


def data_decoder(datatype: str, depth: int) -> "msgspec.json.Decoder[Any]":
    """A decoder for `data` alone: lists of `datatype`, nested `depth` deep."""
    if (datatype, depth) not in _data_decoders:
        _data_decoders[datatype, depth] = msgspec.json.Decoder(nested(ELEMENT_TYPES[datatype], depth))
    return _data_decoders[datatype, depth]


def nested(element: Any, depth: int) -> Any:
    """The type of lists of `element`, nested `depth` deep."""
    for _ in range(depth):
        element = GenericAlias(list, (element,))
    return element


def known_datatype(name: str, datatype: str) -> str:
    """`datatype` itself. Raises: InputError that lists the datatypes there are."""
    if datatype not in DATATYPES:
        raise InputError(f"input {name!r}: unknown datatype {datatype!r}; use one of {', '.join(DATATYPES)}")
    return datatype


_MAX_TEXT = 512  # a decoder quotes the name of a field that it does not know, however long
_PATH = re.compile(r" - at `(\$.*)`$")


def refuse(error: Exception, where: str = "request body") -> NoReturn:
    """Turn a decoder's error into one that speaks of the request's own fields.

    Raises: InputError, always.
    """
    if isinstance(error, RecursionError):
        raise InputError(f"{where}: nested too deeply") from None
    if isinstance(error, msgspec.ValidationError):
        text = str(error)
        found = _PATH.search(text)
        field = where
        if found:
            text = text[: found.start()]
            path = found[1].removeprefix("$").removeprefix(".")
            field = path if where == "request body" else f"{where}{path}"
        raise InputError(f"{field}: {text[0].lower()}{text[1:_MAX_TEXT]}".replace("`", "")) from None
    if isinstance(error, msgspec.DecodeError):
        raise InputError(f"{where}: not valid JSON ({error})") from None
    if isinstance(error, UnicodeDecodeError):
        raise InputError(f"{where}: not valid UTF-8 ({error.reason} at byte {error.start})") from None
    raise error

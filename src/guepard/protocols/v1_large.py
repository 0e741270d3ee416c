"""Long predict messages: rows or columns of one input, and columns of several, whose numbers go straight into arrays.

What else there is (objects for each row, brackets left out, anything wrong) is left to the reader of all messages.
"""

from collections.abc import Sequence
from math import prod

import msgspec
import numpy as np

from guepard.core.tensor import Tensor
from guepard.protocols.large_arrays import LargeArrays, find_large_arrays
from guepard.protocols.number_text import Pause, read_numbers
from guepard.protocols.oip_json import depth_of
from guepard.protocols.v1_messages import WirePredict, raw_decoder
from guepard.protocols.v1_values import ValueReader

_FAULTS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_UNSET = msgspec.UNSET
_COUNTED = 1 << 20

_decode_raw = raw_decoder().decode
_columns = msgspec.json.Decoder(dict[str, msgspec.Raw])


class LargePredict:
    """Reads the messages to one model, which `readers` know the inputs of. `has_rows`: it may be sent `instances`."""

    def __init__(self, readers: Sequence[ValueReader], batched: bool, has_rows: bool) -> None:
        self._readers = readers
        self._dims = [(-1, *reader.spec.dims) if batched else reader.spec.dims for reader in readers]
        self._has_rows = has_rows

    def message(
        self, body: bytes | memoryview, pause: Pause
    ) -> WirePredict[tuple[Tensor, ...], tuple[Tensor, ...]] | None:
        """The message with a tuple of tensors as its values; None: read it another way."""
        found = find_large_arrays(body)
        if found is None:
            return None
        try:
            raw = _decode_raw(found.rest)
            values = raw.instances if raw.instances is not _UNSET else raw.inputs
            if values is _UNSET or (raw.instances is not _UNSET and (raw.inputs is not _UNSET or not self._has_rows)):
                return None
            if found.place_of(values) == 0:
                texts: dict[str, msgspec.Raw] = {self._readers[0].spec.name: values}
                if len(self._readers) > 1:
                    return None
            elif raw.inputs is not _UNSET:
                texts = _columns.decode(values)
            else:
                return None
        except _FAULTS:
            return None
        tensors = self._tensors(found, texts, pause)
        if tensors is None:
            return None
        if raw.instances is not _UNSET:
            return WirePredict(tensors, _UNSET, raw.signature_name, raw.parameters)
        return WirePredict(_UNSET, tensors, raw.signature_name, raw.parameters)

    def _tensors(self, found: LargeArrays, texts: dict[str, msgspec.Raw], pause: Pause) -> tuple[Tensor, ...] | None:
        """Every input that `texts` have, if each is a long array and all arrays are needed; repeated names are not."""
        places = {name: found.place_of(text) for name, text in texts.items()}
        if sorted(places.values()) != list(range(len(found.arrays))):
            return None
        tensors = []
        for reader, dims in zip(self._readers, self._dims, strict=True):
            spec = reader.spec
            place = places.pop(spec.name, -1)
            if place < 0 and spec.optional:
                continue
            text = found.arrays[place] if place >= 0 else memoryview(b"")
            shape = _shape(text, dims)
            array = None if shape is None else read_numbers(text, spec.datatype.name, shape, False, pause)
            if array is None:
                return None
            tensors.append(Tensor(spec.name, spec.datatype.name, array))
        return tuple(tensors) if not places else None


def _shape(text: memoryview, dims: Sequence[int]) -> list[int] | None:
    """The shape of what is nested as deep as `dims` and evenly, with their lengths; None where that cannot be.

    The first list says the innermost length where it is free, the number of elements one of the others.
    """
    if not dims or depth_of(bytes(text[:4_096])) != len(dims):
        return None
    shape = list(dims)
    if shape.count(-1) > 1 and shape[-1] == -1:
        start = bytes(text[:_COUNTED])
        end = start.find(b"]")
        shape[-1] = start.count(b",", 0, end) + 1 if end >= 0 else 0
    free = shape.count(-1)
    if free > 1 or 0 in shape:
        return None
    if free:
        count = 1
        for at in range(0, len(text), _COUNTED):
            count += int(np.count_nonzero(np.frombuffer(text[at : at + _COUNTED], np.uint8) == ord(",")))
        known = prod(dim for dim in shape if dim != -1)
        if count % known:
            return None
        shape[shape.index(-1)] = count // known
    return shape

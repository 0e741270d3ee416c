"""Tensors in shared memory: Triton's shared memory extension, the same for every front end.

A tensor's parameters name a region and the bytes of it that hold, or are to hold, the data in its binary form. A
request is read in two steps, because the second copies as much as a tensor holds: understanding where the data lies
(`find_place`), and fetching it (`collect`, `read_tensor`).
Source: Triton, "Shared-Memory Extension".
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from reprlib import repr as shortened
from typing import Any, NamedTuple

import msgspec

from guepard.core.errors import InputError
from guepard.core.regions import MAX_REGION_NAME, Regions
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.protocols import oip_binary
from guepard.protocols.oip_messages import WireTensor, known_datatype
from guepard.protocols.oip_parameters import is_whole, refuse_tensor_parameters

_PREFIX = "shared_memory_"
_REGION, _OFFSET, _SIZE = "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"


class Place(NamedTuple):
    """Bytes of a region. `offset` counts from its start."""

    region: str
    offset: int
    byte_size: int


class SharedInput(NamedTuple):
    """An input whose data lies in shared memory and has not been fetched."""

    name: str
    datatype: str
    shape: list[int]
    place: Place


class SharedTensors(NamedTuple):
    """What one request has in shared memory: outputs by name and, where any input is, all its inputs in order.

    `echoes`: by name, what the answer says of outputs that have been written already.
    """

    inputs: Sequence[Tensor | SharedInput]
    outputs: Mapping[str, Place]
    echoes: Mapping[str, dict[str, Any]] | None = None

    @property
    def input_bytes(self) -> int:
        return sum([given.place.byte_size for given in self.inputs if isinstance(given, SharedInput)])

    @property
    def output_bytes(self) -> int:
        """What the outputs take at most."""
        return sum([place.byte_size for place in self.outputs.values()])

    def check(self, regions: Regions) -> None:
        """Find out what is wrong before anything is read or executed. Raises: GuepardError."""
        for given in self.inputs:
            if isinstance(given, SharedInput):
                regions.check(*given.place)
        for place in self.outputs.values():
            regions.check(*place)

    def collect(self, regions: Regions) -> list[Tensor]:
        """All inputs, with their data. From any thread. Raises: GuepardError. Cost: a copy of `input_bytes`."""
        return [
            Tensor(given.name, given.datatype, _fetch(given, regions)) if isinstance(given, SharedInput) else given
            for given in self.inputs
        ]

    def written(self, outputs: Iterable[tuple[TensorSpec, Array]], regions: Regions) -> Mapping[str, dict[str, Any]]:
        """The echoes, after having those of `outputs` written that have a place. From any thread.

        Raises: GuepardError; when a place is too small, nothing has been written.
        """
        if self.echoes is not None:
            return self.echoes
        placed = [(spec, array, self.outputs[spec.name]) for spec, array in outputs if spec.name in self.outputs]
        names = [spec.name for spec, _, _ in placed]
        return dict(zip(names, write_tensors(placed, regions), strict=True))


# One tensor at a time


def read_tensor(
    name: str, datatype: str, shape: list[int], parameters: Mapping[str, Any], regions: Regions, field: str = "input"
) -> Array:
    """The input that `parameters` place in a region, as a private copy. `field` is what errors call it.

    Raises: GuepardError, also where no region is named.
    """
    place = find_place(field, parameters)
    if place is None:
        raise InputError(f"{field}.parameters.{_REGION}: missing")
    return _fetch(shared_input(name, datatype, shape, place), regions)


def write_tensor(spec: TensorSpec, array: Array, place: Place, regions: Regions) -> dict[str, Any]:
    """Write an output where it was asked for. Returns the parameters that tell the caller of it.

    Raises: GuepardError; when the place is too small, nothing has been written.
    """
    (parameters,) = write_tensors([(spec, array, place)], regions)
    return parameters


def write_tensors(outputs: Sequence[tuple[TensorSpec, Array, Place]], regions: Regions) -> list[dict[str, Any]]:
    """`write_tensor` for all outputs of a request: nothing is written unless all of them fit."""
    written = []
    for spec, array, place in outputs:
        data = memoryview(oip_binary.encode_array(spec.datatype.name, array))
        if data.nbytes > place.byte_size:
            raise InputError(
                f"output {spec.name!r} takes {data.nbytes} bytes, {_SIZE} is {place.byte_size}; nothing was written"
            )
        regions.check(place.region, place.offset, data.nbytes)
        written.append((place, data))
    for place, data in written:
        regions.write(place.region, place.offset, data)
    return [{_REGION: place.region, _OFFSET: place.offset, _SIZE: data.nbytes} for place, data in written]


def shared_input(name: str, datatype: str, shape: list[int], place: Place) -> SharedInput:
    """Raises: InputError when the place's size is not what datatype and shape need."""
    oip_binary.check_size(name, known_datatype(name, datatype), shape, place.byte_size, _SIZE)
    return SharedInput(name, datatype, shape, place)


def _fetch(given: SharedInput, regions: Regions) -> Array:
    data = regions.read(*given.place)
    return oip_binary.decode_array(given.name, given.datatype, given.shape, data, 0, data.nbytes)


# Parameters


def find_place(field: str, parameters: Mapping[str, Any]) -> Place | None:
    """Where a tensor's parameters say that its data lies; None when they say nothing of shared memory.

    Raises: InputError for what has no meaning.
    """
    if not any(key.startswith(_PREFIX) for key in parameters):
        return None
    region = parameters.get(_REGION)
    if _REGION not in parameters or _SIZE not in parameters:
        missing = _SIZE if _REGION in parameters else _REGION
        raise InputError(f"{field}.parameters.{missing}: missing; shared memory needs a region and a byte size")
    if not isinstance(region, str) or not 0 < len(region) <= MAX_REGION_NAME:
        raise InputError(f"{field}.parameters.{_REGION}: expected the name of a region, got {shortened(region)}")
    offset, byte_size = parameters.get(_OFFSET, 0), parameters[_SIZE]
    for key, value in ((_OFFSET, offset), (_SIZE, byte_size)):
        if not is_whole(value) or not 0 <= value < 2**63:
            raise InputError(f"{field}.parameters.{key}: expected a whole number of 0 or more, got {shortened(value)}")
    return Place(region, offset, byte_size)


def find_shared_input(wire: WireTensor[msgspec.Raw], where: str) -> SharedInput | None:
    """The input of a JSON message if its data lies in shared memory, else None. Raises: InputError, Unsupported."""
    place = find_place(where, wire.parameters) if wire.parameters else None
    if place is None:
        return None
    assert wire.parameters is not None
    refuse_tensor_parameters(where, wire.parameters)
    if wire.data is not msgspec.UNSET or "binary_data_size" in wire.parameters:
        other = "binary_data_size" if wire.data is msgspec.UNSET else "data"
        raise InputError(f"input {wire.name!r}: both {other} and {_REGION}; send one of them")
    return shared_input(wire.name, wire.datatype, wire.shape, place)


def refuse_overlaps(outputs: Mapping[str, Place]) -> None:
    """Raises: InputError when two outputs are to be written over one another."""
    taken = sorted((place, name) for name, place in outputs.items() if place.byte_size)
    for (one, name), (other, other_name) in pairwise(taken):
        if one.region == other.region and one.offset + one.byte_size > other.offset:
            raise InputError(f"outputs: {name!r} and {other_name!r} overlap in shared memory region {one.region!r}")

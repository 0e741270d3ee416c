"""Arrays between two processes: each side puts its own into memory that it owns and views those of the other."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from guepard.core.buffers import BufferPool
from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError
from guepard.core.tensor import Array
from guepard.memory.shared_arena import SharedArena
from guepard.protocols.oip_binary import decode_array, encode_array
from guepard.transport.channel import BadFrame
from guepard.transport.frames import Place

_WITHIN_FRAME_BYTES = 4_096
"""Up to here an array travels in the frame: two copies through the socket cost less than a slab and its return."""
_ALIGNMENT = 64

Buffer = bytes | memoryview


class Carrier:
    """Puts arrays where the other process finds them. `pool` leases from `arena`."""

    def __init__(self, arena: SharedArena, pool: BufferPool) -> None:
        self._arena = arena
        self._pool = pool

    def place(self, datatype: str, array: Array, leases: list[memoryview]) -> Place:
        """Where `array` is. What must be kept until the other side has read it is added to `leases`.

        Cost: nothing is copied of an array that lies in the arena.
        """
        shape = array.shape
        if datatype != "BYTES":
            offset = self._arena.offset_of(array)
            if offset is not None and array.flags.c_contiguous:
                return Place(datatype, shape, offset, array.nbytes)
        data = _bytes(datatype, array)
        size = len(data)
        if size <= _WITHIN_FRAME_BYTES:
            return Place(datatype, shape, -1, size, bytes(data))
        lease = self._pool.lease(size)
        offset = self._arena.offset_of(lease)
        if offset is None:  # the pool is at its limit
            return Place(datatype, shape, -1, size, bytes(data))
        lease[:] = data
        leases.append(lease)
        return Place(datatype, shape, offset, size)

    def flags(self, count: int) -> tuple[memoryview, int]:
        """`count` bytes of 0 that the other side sees, and where. The offset is -1 where there is no room for them."""
        lease = self._pool.lease(count)
        lease[:] = bytes(count)
        offset = self._arena.offset_of(lease)
        return lease, -1 if offset is None else offset

    def place_together(self, datatypes: Sequence[str], arrays: Sequence[Array]) -> "Together":
        """Put all `arrays` into one lease, but for those that go within the frame."""
        data = [_bytes(datatype, array) for datatype, array in zip(datatypes, arrays, strict=True)]
        total = 0
        starts = []
        for each in data:
            starts.append(total)
            if len(each) > _WITHIN_FRAME_BYTES:
                total += -(-len(each) // _ALIGNMENT) * _ALIGNMENT
        lease = self._pool.lease(total) if total else None
        offset = None if lease is None else self._arena.offset_of(lease)
        places = []
        for datatype, array, each, start in zip(datatypes, arrays, data, starts, strict=True):
            size = len(each)
            if size <= _WITHIN_FRAME_BYTES or lease is None or offset is None:
                places.append(Place(datatype, array.shape, -1, size, bytes(each)))
            else:
                lease[start : start + size] = each
                places.append(Place(datatype, array.shape, start, size))
        if lease is None or offset is None:
            return Together(tuple(places), None, 0, 0)
        return Together(tuple(places), lease, offset, total)


class Together(NamedTuple):
    """The offsets of `places` count from `offset`, where `lease` lies with its `size_bytes`."""

    places: tuple[Place, ...]
    lease: memoryview | None
    offset: int
    size_bytes: int


def view_array(place: Place, memory: Buffer) -> Array:
    """The array that `place` tells of; `memory` holds its bytes and nothing else.

    Raises: BadFrame when they do not fit each other.
    """
    entry = DATATYPES.get(place.datatype)
    shape = place.shape
    if entry is None or any(dim < 0 for dim in shape):
        raise BadFrame(f"a tensor of datatype {place.datatype!r} and shape {list(shape)}")
    if entry.kind == "bytes":
        try:
            return decode_array("it", "BYTES", list(shape), memory, 0, len(memory))
        except InputError as error:
            raise BadFrame(error.message) from None
    if len(memory) != prod(shape) * entry.size:
        raise BadFrame(f"{len(memory)} bytes for {place.datatype} of shape {list(shape)}")
    try:
        return np.ndarray(shape, entry.dtype, memory) if len(memory) else np.empty(shape, entry.dtype)
    except (ValueError, OverflowError) as error:  # more dimensions than numpy has, or larger ones
        raise BadFrame(str(error)) from None


def _bytes(datatype: str, array: Array) -> Buffer:
    if datatype == "BYTES":
        data = encode_array(datatype, array)
        return data if isinstance(data, bytes) else data.cast("B")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""

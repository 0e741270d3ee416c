"""Arrays in shared memory and in frames: what is placed on one side is viewed on the other."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.core.datatypes import DATATYPES
from guepard.core.tensor import Array
from guepard.engine.processes.carrier import Carrier, view_array
from guepard.memory.shared_arena import SharedArena, SharedView
from guepard.memory.slab_pool import SlabPool
from guepard.transport.channel import BadFrame
from guepard.transport.frames import Place
from tests.services.drawn_tensors import array_of, shapes


class Sides:
    """Both sides in one process: `place` on the one, `view` on the other."""

    def __init__(self, limit_bytes: int = 2**24) -> None:
        self.arena = SharedArena.create("test")
        self.pool = SlabPool(self.arena, limit_bytes=limit_bytes)
        self.carrier = Carrier(self.arena, self.pool)
        self.other = SharedView(self.arena.descriptor)

    def view(self, place: Place) -> Array:
        return view_array(place, place.data if place.offset < 0 else self.other.view(place.offset, place.size_bytes))


def same(left: Array, right: Array) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def text(*values: bytes) -> Array:
    return np.array(values, object)


def test_what_lies_in_the_arena_is_not_copied() -> None:
    sides = Sides()
    array = np.frombuffer(sides.pool.lease(40_000), np.float32).reshape(100, 100)
    array[:] = 3
    leases: list[memoryview] = []
    place = sides.carrier.place("FP32", array, leases)
    assert (place.offset, leases) == (sides.arena.offset_of(array), [])
    seen = sides.view(place)
    array[5, 5] = 9
    assert seen[5, 5] == 9


def test_small_ones_go_within_the_frame_and_large_ones_beside_it() -> None:
    sides = Sides()
    leases: list[memoryview] = []
    small, large = np.arange(1_024, dtype=np.float32), np.arange(1_025, dtype=np.float32)
    assert sides.carrier.place("FP32", small, leases).offset == -1
    assert not leases
    place = sides.carrier.place("FP32", large, leases)
    assert place.offset >= 0
    assert len(leases) == 1
    assert same(sides.view(place), large)


@pytest.mark.parametrize(
    ("datatype", "array"),
    [
        ("BYTES", text()),
        ("BYTES", text(b"", b"a", "é".encode())),
        ("BYTES", text(b"x" * 100_000, b"")),
        ("FP32", np.zeros((0, 7), np.float32)),
        ("FP32", np.zeros((), np.float32)),
        ("INT64", np.arange(6_000).reshape(60, 100)[::2, ::3]),
        ("INT16", np.asfortranarray(np.arange(9_000, dtype=np.int16).reshape(90, 100))),
        ("BOOL", np.arange(9_000) % 3 == 0),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.shape),
)
def test_there_and_back(datatype: str, array: Array) -> None:
    for sides in (Sides(), Sides(limit_bytes=4_096)):  # with room, and with none: then all goes within the frame
        leases: list[memoryview] = []
        place = sides.carrier.place(datatype, array, leases)
        assert np.array_equal(sides.view(place), array)
        assert sides.view(place).shape == array.shape
        together = sides.carrier.place_together([datatype, "UINT8"], [array, np.arange(200, dtype=np.uint8)])
        memory = together.lease or memoryview(b"")
        for each, expected in zip(together.places, [array, np.arange(200, dtype=np.uint8)], strict=True):
            part: Any = each.data if each.offset < 0 else memory[each.offset : each.offset + each.size_bytes]
            assert np.array_equal(view_array(each, part), expected)
        if together.lease is not None:
            assert sides.other.view(together.offset, together.size_bytes) == together.lease[: together.size_bytes]


@given(st.data())
def test_any_array_of_any_datatype(data: st.DataObject) -> None:
    sides = Sides()
    datatype = data.draw(st.sampled_from(list(DATATYPES)))
    array = data.draw(array_of(datatype, data.draw(st.integers(0, 3).flatmap(shapes)), plain=False))
    seen = sides.view(sides.carrier.place(datatype, array, []))
    assert seen.shape == array.shape
    if datatype == "BYTES":
        expected = [each.encode() if isinstance(each, str) else each for each in array.ravel().tolist()]
        assert seen.ravel().tolist() == expected
    else:
        assert same(seen, array)


def test_flags_are_seen_and_are_none_where_there_is_no_room() -> None:
    sides = Sides()
    flags, offset = sides.carrier.flags(5)
    other = sides.other.view(offset, 5)
    assert bytes(other) == bytes(5)
    flags[3] = 1
    assert list(other) == [0, 0, 0, 1, 0]
    assert Sides(limit_bytes=0).carrier.flags(5)[1] == -1


@pytest.mark.parametrize(
    "place",
    [
        Place("FP17", (2,), -1, 8),
        Place("FP32", (-2,), -1, 8),
        Place("FP32", (3,), -1, 8),
        Place("FP32", (2, 2), -1, 8),
        Place("FP32", (0,), -1, 8),
        Place("FP32", (2**62, 2**62), -1, 8),
        Place("FP32", (1,) * 65 + (2,), -1, 8),
        Place("BYTES", (3,), -1, 8),
        Place("BYTES", (2**62,), -1, 8),
    ],
    ids=str,
)
def test_places_that_do_not_fit_their_memory(place: Place) -> None:
    with pytest.raises(BadFrame):
        view_array(place, b"\xff" * 8)


@pytest.mark.parametrize("place", [Place("FP32", (0, 2**62), -1, 0), Place("FP32", (0,) * 65, -1, 0)], ids=str)
def test_empty_arrays_that_numpy_does_not_have(place: Place) -> None:
    with pytest.raises(BadFrame):
        view_array(place, b"")

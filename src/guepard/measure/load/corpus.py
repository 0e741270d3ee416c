"""Which payload each request gets, and its bytes.

As with arrivals, all processes know one sequence by the number of the request and take their share of it.
"""

import struct
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from guepard.measure.load.plan import Payload, PayloadOrder, UniqueSpot
from guepard.measure.load.records import UNIQUE

_CHUNK = 4_096
_STRIDE = 0x9E37_79B1
"""Odd, so that number * stride runs through all values of a power of two; neighbours become unlike."""

_SMALL = bytes.maketrans(b"0123456789", bytes(range(10)))

Chosen = tuple[int, bytes, int]
"""Index of the payload, its bytes, flags of the record."""
Make = Callable[[int], bytes]


def payloads_of(
    payloads: Sequence[Payload], order: PayloadOrder, *, first: int, share: int, shares: int, seed: int
) -> Iterator[Chosen]:
    """The payloads of the requests number first + share, first + share + shares, … without end."""
    repeated = [(index, payload.data, 0) for index, payload in enumerate(payloads)]
    match order.kind:
        case "cycle":
            number = first + share
            while True:
                yield repeated[number % len(repeated)]
                number += shares
        case "unique":
            makers = [_numbered(payload) for payload in payloads]
            number = first + share
            while True:
                index = number % len(makers)
                make, unlike = makers[index]
                yield (index, make(number), UNIQUE if number < unlike else 0) if make else repeated[index]
                number += shares
        case "zipf":
            for index in _zipf(len(repeated), order.exponent, (seed, first), share, shares):
                yield repeated[index]


def _numbered(payload: Payload) -> tuple[Make | None, int]:
    """Who writes numbers into the payload, if it has a spot, and from which number on they come again."""
    spot = payload.spot
    return (unique_maker(payload.data, spot), distinct_numbers(spot)) if spot else (None, 0)


def distinct_numbers(spot: UniqueSpot) -> int:
    """How many numbers, from 0, each look different in the spot."""
    match spot.form:
        case "digits" | "small":
            return int(10**spot.width)
        case "float32":
            return 1 << 23
        case "float64":
            return 1 << 52
        case "uint":
            return 1 << 8 * spot.width


def unique_maker(data: bytes, spot: UniqueSpot) -> Make:
    """A function from a request's number to `data` with that number in its spot."""
    write = _writer(spot)
    if spot.stride != 1:
        return _strided_maker(data, spot, write)
    before = data[: spot.offset]
    after = data[spot.offset + spot.width :]
    return lambda number: b"".join((before, write(number), after))


def _strided_maker(data: bytes, spot: UniqueSpot, write: Make) -> Make:
    places = slice(spot.offset, spot.offset + spot.width * spot.stride, spot.stride)
    buffer = bytearray(data)

    def make(number: int) -> bytes:
        buffer[places] = write(number)
        return bytes(buffer)

    return make


def _writer(spot: UniqueSpot) -> Make:
    match spot.form:
        case "digits":
            return lambda number: b"%0*d" % (spot.width, number % 10**spot.width)
        case "float32":
            return lambda number: struct.pack("<I", 0x3F80_0000 | (number * _STRIDE & 0x7F_FFFF))
        case "float64":
            return lambda number: struct.pack("<Q", 0x3FF0_0000_0000_0000 | (number * _STRIDE & (1 << 52) - 1))
        case "small":
            return lambda number: (b"%0*d" % (spot.width, number % 10**spot.width)).translate(_SMALL)
        case "uint":
            return lambda number: (number % 256**spot.width).to_bytes(spot.width, "little")


def _zipf(count: int, exponent: float, seed: tuple[int, int], share: int, shares: int) -> Iterator[int]:
    random = np.random.default_rng(seed)
    cumulative = np.cumsum(1.0 / np.arange(1, count + 1) ** exponent)
    cumulative /= cumulative[-1]
    while True:
        drawn = np.searchsorted(cumulative, random.random(_CHUNK * shares), side="right")
        yield from drawn[share::shares].tolist()

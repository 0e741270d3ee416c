"""Spans of time and sizes as people write them: `2ms`, `1.5s`, `64MB`, `128MiB`. Never rounded."""

import re
from fractions import Fraction
from typing import ClassVar, Self

_LARGEST = 2**63 - 1
_TEXT = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?([A-Za-zµ]*)")


class Word:
    """A value that people write in a way of its own; `str()` gives it back so."""

    __slots__ = ()

    phrase: ClassVar[str]

    @classmethod
    def read(cls, text: str) -> Self:
        """The value that a person wrote. Raises: ValueError, with a text that says what to write instead."""
        raise NotImplementedError


class Quantity(int):
    """A number with a unit. The integer counts the smallest unit; `str()` gives the shortest exact text."""

    noun: ClassVar[str]
    example: ClassVar[str]
    units: ClassVar[dict[str, int]]
    spellings: ClassVar[dict[str, str]]

    @classmethod
    def read(cls, value: object) -> Self:
        """The quantity that a person wrote.

        Raises: ValueError, with a text that says what to write instead.
        """
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"expected {cls.noun} such as {cls.example}, got {repr(value)[:60]}")
        text = str(value).strip()
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"expected {cls.noun} such as {cls.example}, got {text[:60]!r}")
        number, unit = match.groups()
        scale = cls.units.get(cls.spellings.get(unit, unit)) if unit else cls._scale_of_bare(number)
        if scale is None:
            raise ValueError(f"unknown unit {unit[:20]!r} in {text[:60]!r}; the units are {', '.join(cls.units)}")
        amount = Fraction(number) * scale
        if amount.denominator != 1:
            raise ValueError(f"{text!r} is finer than {next(iter(cls.units))}, the smallest unit")
        if amount > _LARGEST:
            largest = max(cls.units, key=lambda unit: cls.units[unit])
            raise ValueError(f"{text!r} is too large; the largest is {_LARGEST // cls.units[largest]}{largest}")
        return cls(amount)

    @classmethod
    def _scale_of_bare(cls, number: str) -> int:
        raise NotImplementedError

    def __str__(self) -> str:
        candidates = [text for unit, scale in self.units.items() if (text := self._in_unit(unit, scale))]
        return min(candidates, key=len) if self else "0"

    def _in_unit(self, unit: str, scale: int) -> str | None:
        thousandths, rest = divmod(int(self) * 1000, scale)
        if rest:
            return None
        whole, fraction = divmod(thousandths, 1000)
        return f"{whole}.{fraction:03d}".rstrip("0").rstrip(".") + unit


class Duration(Quantity):
    """A span of time. Units: nanoseconds."""

    noun = "a duration"
    example = "30s or 500us"
    units: ClassVar[dict[str, int]] = {
        "ns": 1,
        "us": 1_000,
        "ms": 1_000_000,
        "s": 1_000_000_000,
        "m": 60_000_000_000,
        "h": 3_600_000_000_000,
    }
    spellings: ClassVar[dict[str, str]] = {"µs": "us", "min": "m"}

    @classmethod
    def _scale_of_bare(cls, number: str) -> int:
        if Fraction(number):
            raise ValueError(f"{number} has no unit; write {number}s or {number}ms")
        return 1


class ByteSize(Quantity):
    """A size. Units: bytes; a bare number is bytes."""

    noun = "a size"
    example = "64MB or 128MiB"
    units: ClassVar[dict[str, int]] = {
        "B": 1,
        "kB": 1_000,
        "KiB": 1_024,
        "MB": 1_000_000,
        "MiB": 1_048_576,
        "GB": 1_000_000_000,
        "GiB": 1_073_741_824,
        "TB": 1_000_000_000_000,
        "TiB": 1_099_511_627_776,
    }
    spellings: ClassVar[dict[str, str]] = {"KB": "kB", "b": "B", "kb": "kB", "mb": "MB", "gb": "GB", "tb": "TB"} | {
        text: unit
        for unit in ("KiB", "MiB", "GiB", "TiB")
        for text in (unit.lower(), unit[:2], unit[:2].lower(), unit.upper())
    }

    @classmethod
    def _scale_of_bare(cls, number: str) -> int:
        return 1

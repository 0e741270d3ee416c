"""Values that only `guepard bench` takes, as people write them: `1000/s`, `1%`, `p99=50ms`, `bursts:20`."""

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from guepard.settings.units import Duration, Word

_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_RATE = re.compile(rf"({_NUMBER}) ?(?:/ ?(s|min|h))?")
_SHARE = re.compile(rf"({_NUMBER}) ?%")
_GOAL = re.compile(rf"p({_NUMBER}) ?(?:=|<=|<) ?(.+)")
_PER = {None: 1, "s": 1, "min": 60, "h": 3_600}
_LARGEST_RATE = 10_000_000


class Rate(float, Word):
    """Requests per second."""

    __slots__ = ()

    phrase = "a rate such as 1000 or 1000/s"

    @classmethod
    def read(cls, text: str) -> Self:
        match = _RATE.fullmatch(text)
        if match is None:
            raise ValueError(f"expected {cls.phrase}, got {text[:60]!r}")
        rate = float(match[1]) / _PER[match[2]]
        if not 0 < rate <= _LARGEST_RATE:
            raise ValueError(f"expected a rate above 0 and up to {_LARGEST_RATE:,}/s, got {text[:60]!r}")
        return cls(rate)

    def __str__(self) -> str:
        return f"{float(self):.9g}/s"


class Share(float, Word):
    """A share of 1, written in percent, since a bare 1 might mean all of it."""

    __slots__ = ()

    phrase = "a share such as 1%"

    @classmethod
    def read(cls, text: str) -> Self:
        match = _SHARE.fullmatch(text)
        if match is None and text != "0":
            raise ValueError(f"expected {cls.phrase}, got {text[:60]!r}")
        return cls(float(match[1]) / 100 if match else 0.0)

    def __str__(self) -> str:
        return f"{self * 100:.9g}%"


@dataclass(frozen=True, slots=True)
class Goal(Word):
    """A percentile of the latency and the most that it may be."""

    phrase: ClassVar[str] = "a goal such as p99=50ms"

    percent: float
    limit: Duration

    @classmethod
    def read(cls, text: str) -> Self:
        match = _GOAL.fullmatch(text)
        if match is None:
            raise ValueError(f"expected {cls.phrase}, got {text[:60]!r}")
        percent, limit = float(match[1]), Duration.read(match[2])
        if not 0 < percent < 100:
            raise ValueError(f"expected a percentile above p0 and below p100, got p{match[1]}")
        if not limit:
            raise ValueError(f"expected a limit above 0, as in {cls.phrase}, got {text[:60]!r}")
        return cls(percent, limit)

    def __str__(self) -> str:
        return f"p{self.percent:g}={self.limit}"


@dataclass(frozen=True, slots=True)
class Pattern(Word):
    """How requests follow one another. `file` holds the times of a trace."""

    phrase: ClassVar[str] = "constant, poisson, bursts:N, ramp:RATE or trace:FILE"

    kind: Literal["constant", "poisson", "bursts", "ramp", "trace"]
    burst_size: int = 1
    end_rate: Rate | None = None
    file: str | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        name, colon, rest = text.partition(":")
        match name:
            case "constant" | "poisson" if not colon:
                return cls(name)
            case "bursts" if re.fullmatch(r"[0-9]{1,6}", rest) and int(rest) > 1:
                return cls(name, burst_size=int(rest))
            case "ramp" if rest:
                return cls(name, end_rate=Rate.read(rest))
            case "trace" if rest:
                return cls(name, file=rest)
        more = "; a burst has 2 requests or more" if name == "bursts" else ""
        raise ValueError(f"expected {cls.phrase}, got {text[:60]!r}{more}")

    def __str__(self) -> str:
        rest = {"bursts": self.burst_size, "ramp": self.end_rate, "trace": self.file}.get(self.kind)
        return self.kind if rest is None else f"{self.kind}:{rest}"


@dataclass(frozen=True, slots=True)
class Order(Word):
    """Which sample a request sends."""

    phrase: ClassVar[str] = "cycle, unique or zipf:EXPONENT"

    kind: Literal["cycle", "unique", "zipf"]
    exponent: float = 1.0

    @classmethod
    def read(cls, text: str) -> Self:
        name, colon, rest = text.partition(":")
        match name:
            case "cycle" | "unique" if not colon:
                return cls(name)
            case "zipf" if not colon:
                return cls(name)
            case "zipf" if re.fullmatch(_NUMBER, rest) and 0 < float(rest) <= 10:
                return cls(name, float(rest))
        raise ValueError(f"expected {cls.phrase}, got {text[:60]!r}")

    def __str__(self) -> str:
        return f"zipf:{self.exponent:g}" if self.kind == "zipf" else self.kind

"""Requests of different lengths in one batch: what is asked for, and what holds once a model is loaded.

A length is the size of the one free dimension that a model's padded inputs share; a token is one place along it.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from guepard.core.tensor import Array

NO_BOUND = 2**62

Origin = Literal["configuration", "model", "inferred"]


@dataclass(frozen=True, slots=True)
class PaddingRules:
    """What an operator or a model says; None where it says nothing.

    `inputs` names the value that fills each padded input up at its end. `outputs` names the axis, counted without the
    batch, along which an output is as long as the inputs. `buckets` are the lengths that batches are padded to,
    ascending. `max_tokens` bounds rows times length of a batch; `max_padding` the tokens that one request more may add
    to a batch beyond those it takes by itself. `origin`: whose word the inputs are.
    """

    inputs: Mapping[str, int | float] | None = None
    outputs: Mapping[str, int] | None = None
    buckets: tuple[int, ...] | None = None
    max_tokens: int | None = None
    max_padding: int | None = None
    origin: Origin = "configuration"

    def over(self, other: "PaddingRules | None") -> "PaddingRules":
        """These rules, with those of `other` where these say nothing."""
        if other is None:
            return self
        return PaddingRules(
            other.inputs if self.inputs is None else self.inputs,
            other.outputs if self.outputs is None else self.outputs,
            other.buckets if self.buckets is None else self.buckets,
            other.max_tokens if self.max_tokens is None else self.max_tokens,
            other.max_padding if self.max_padding is None else self.max_padding,
            other.origin if self.inputs is None else self.origin,
        )


class PaddedInput(NamedTuple):
    """`place` among the model's inputs; `axis` of the array, the batch being 0; `value` as the array holds it."""

    name: str
    place: int
    axis: int
    value: Any


class CutOutput(NamedTuple):
    """`place` among the model's outputs; `axis` of the array, the batch being 0."""

    name: str
    place: int
    axis: int


@dataclass(frozen=True, slots=True)
class Padding:
    """What holds for one model. `max_tokens` and `max_padding` are `NO_BOUND` where there is none."""

    inputs: tuple[PaddedInput, ...]
    outputs: tuple[CutOutput, ...] = ()
    buckets: tuple[int, ...] = ()
    max_tokens: int = NO_BOUND
    max_padding: int = NO_BOUND

    def length_of(self, arrays: Sequence[Array | None]) -> int:
        """The length of a request that was found to fit the model. An optional input may be absent, not all are."""
        for _, place, axis, _ in self.inputs:
            array = arrays[place]
            if array is not None:
                return int(array.shape[axis])
        raise AssertionError("a padded input is required, so one is there")

    def padded_length(self, longest: int) -> int:
        """How long a batch is whose longest request has `longest`: the next bucket, or just that."""
        buckets = self.buckets
        if not buckets or not longest or longest > buckets[-1]:
            return longest
        return buckets[bisect_left(buckets, longest)]

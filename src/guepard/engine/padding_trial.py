"""What padding does to a model, tried before it serves: are answers what they are without, and what is it worth?

A row is run alone and again next to a longer one, padded as requests will be. Where the answers differ, padding makes
wrong answers: the model has no mask, or takes another value for padding. And two times, of few tokens and of many, say
how many tokens of padding cost as much as the execution that they save.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter_ns, thread_time_ns
from typing import NamedTuple

import numpy as np

from guepard.backends.base import Executor, Outputs
from guepard.batching.padding import gather_padded, padded_length, scatter_padded, wrong_length
from guepard.core.model_config import ModelDescription
from guepard.core.padding import NO_BOUND, Origin, Padding
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.core.tensor import Array, Tensor, TensorSpec, empty_array
from guepard.engine.warmup import PAYS_FROM, paying_rows, same

log = logging.getLogger(__name__)

# Two lengths, the first pair that the model takes: few tokens, which cost little, then what windows and kernels accept.
_LENGTHS = ((5, 9), (16, 32), (128, 224))
_MANY_TOKENS = 64

_TRIED_ROWS = (1, 4, 16, 64)
_MANY_ROWS = 16
_TIMED_ROUNDS = 5
_ENOUGH_NS = 600_000_000
_OWN_SHARE = 0.25

# However the times come out on a busy machine: batches of so many tokens, and so much padding, never do harm.
_LEAST_TOKENS = 64
_LEAST_PADDING = 4

# What an execution costs the server beside the model: a hand-over to a thread and back.
_HAND_OVER_NS = 50_000


class Worth(NamedTuple):
    """Tokens at which one costs about as little as it ever does, and tokens that cost as much as an execution."""

    paying_tokens: int
    execution_tokens: int


class Trial:
    """Padding of one model on one executor. Blocks. Raises nothing that a model raises."""

    def __init__(
        self, name: str, executor: Executor, description: ModelDescription, padding: Padding, free_size: int
    ) -> None:
        self._name = name
        self._executor = executor
        self._description = description
        self._padding = padding
        self._free_size = free_size

    def lengths(self) -> tuple[int, int] | None:
        """The first two lengths that the model takes; None if it takes no sample that could be made up."""
        for pair in _LENGTHS:
            try:
                for length in pair:
                    self._execute([self._request(length, _PATTERNS[0])], [])
            except Exception as error:
                log.debug("model %s takes no samples of lengths %s: %s", self._name, pair, error)
            else:
                return pair
        return None

    def flaw(self, lengths: tuple[int, int]) -> str | None:
        """How answers change under padding, None if they do not."""
        for pattern in _PATTERNS:
            pair = [self._request(length, pattern) for length in lengths]
            try:
                alone = [self._execute([request], []) for request in pair]
            except Exception as error:
                log.debug("model %s takes no %s: %s", self._name, pattern, error)
                continue
            found = self._compare(pair, alone)
            if found is not None:
                return found
        return None

    def worth(self, lengths: tuple[int, int]) -> Worth | None:
        """What padding may cost; None when the model refuses larger samples."""
        short = lengths[0]
        many = max(_MANY_TOKENS, lengths[1])
        most = self._description.max_batch_size
        rows = [each for each in _TRIED_ROWS if each <= most]
        crowd = (min(_MANY_ROWS, most), many)
        try:
            times = self._fastest([*((each, short) for each in rows), (1, many), crowd])
        except Exception as error:
            log.debug("model %s refuses larger samples: %s", self._name, error)
            return None
        one, long = times[1, short], times[1, many]
        token_ns = (long - one) / (many - short)
        if token_ns <= 0:  # too small a model, or too busy a machine, to tell what a token costs
            return Worth(_paying_tokens(times, rows, short, crowd), _LEAST_PADDING)
        beside_ns = one - token_ns * short + _HAND_OVER_NS
        return Worth(_paying_tokens(times, rows, short, crowd), max(_LEAST_PADDING, round(beside_ns / token_ns)))

    def _compare(self, pair: Sequence[InferenceRequest], alone: Sequence[Outputs]) -> str | None:
        padding = self._padding
        if self._description.max_batch_size == 1:  # no two rows meet, but buckets lengthen one
            pair, padding = pair[:1], replace(padding, buckets=(pair[1].length,))
        try:
            outputs = self._execute(pair, gather_padded(pair, padding))
        except Exception as error:
            return f"a padded batch was refused ({error})"
        specs = self._description.outputs
        wrong = wrong_length(pair, outputs, padding)
        if wrong is not None:
            cut, length = wrong
            return (
                f"output {cut.name!r} has shape {list(outputs[cut.place].shape)} for a batch of length {length}, and "
                f"padding.outputs says that dimension {cut.axis} is as long; remove it from padding.outputs"
            )
        for (request, padded), own in zip(scatter_padded(pair, outputs, padding), alone, strict=False):
            for spec, left, right in zip(specs, padded, own, strict=True):
                if same(left, right):
                    continue
                axis = _axis_that_follows(left, right, request.length)
                if axis is not None:
                    return (
                        f"output {spec.name!r} is as long as the padded inputs along dimension {axis}, the batch not "
                        f"counted, so its answers would hold padding; write padding.outputs: {{{spec.name}: {axis}}}"
                    )
                return (
                    f"a row padded from length {request.length} to {padded_length(pair, padding)} gives another output "
                    f"{spec.name!r} than alone, so padding would make wrong answers"
                )
        return None

    def _execute(self, requests: Sequence[InferenceRequest], inputs: Sequence[Array | None]) -> Outputs:
        return self._executor.execute(inputs or requests[0].arrays, requests)

    def _fastest(self, shapes: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Nanoseconds of the fastest run of each (rows, length), taken in turns so that a bad moment is shared.

        In CPU time of this thread, which strangers on the machine cannot stretch, unless the work is done elsewhere.
        """
        requests = {shape: self._request(shape[1], _PATTERNS[0], shape[0]) for shape in shapes}
        wall, own = dict.fromkeys(shapes, NO_BOUND), dict.fromkeys(shapes, NO_BOUND)
        total = 0
        for _ in range(_TIMED_ROUNDS):
            for shape, request in requests.items():
                start, own_start = perf_counter_ns(), thread_time_ns()
                self._execute([request], [])
                own[shape] = min(own[shape], thread_time_ns() - own_start)
                took = perf_counter_ns() - start
                wall[shape] = min(wall[shape], took)
                total += took
            if total > _ENOUGH_NS:
                break
        return own if sum(own.values()) > _OWN_SHARE * sum(wall.values()) else wall

    def _request(self, length: int, pattern: "_Pattern", rows: int = 1) -> InferenceRequest:
        padded = {each.place: each for each in self._padding.inputs}
        tensors = []
        for index, spec in enumerate(self._description.inputs):
            dims = [self._free_size if dim == -1 else dim for dim in spec.dims]
            fill = None
            if index in padded:
                dims[padded[index].axis - 1] = length
                fill = padded[index].value
            array = pattern.values(spec, [rows, *dims], fill)
            if fill is None and "len" in spec.name.lower() and spec.datatype.kind == "int":
                array[...] = length
            tensors.append(Tensor(spec.name, spec.datatype.name, array))
        request = InferenceRequest(tensors, NOBODY, 0)
        request.arrays = [tensor.array for tensor in tensors]
        request.rows = rows
        request.length = length
        request.deadline = 2**63
        return request


class _Pattern(NamedTuple):
    """Values of samples. What masks must be 1, or every token would be padding, which proves nothing; so must types,
    of which most models have two.
    """

    numbers: tuple[float, float]
    whole: tuple[int, ...]

    def values(self, spec: TensorSpec, shape: Sequence[int], fill: object) -> Array:
        array = empty_array(spec, shape)
        kind = spec.datatype.kind
        if kind == "bytes":
            array[...] = b"a"
        elif kind == "bool" or any(word in spec.name.lower() for word in _OF_ONES):
            array[...] = 0x3F80 if spec.datatype.name == "BF16" else 1
        elif spec.datatype.name == "BF16":
            array[...] = 0x3FC0  # 1.5
        elif kind == "float":
            array[...] = np.linspace(*self.numbers, array.size).reshape(array.shape)
        else:
            whole = [value for value in self.whole if value != fill] or [self.whole[0] + 1]
            array[...] = np.resize(whole, array.size).reshape(array.shape)
        return array


_OF_ONES = ("mask", "type")

# Numbers of both signs, as a maximum hides padding of 0 among positive ones, and a minimum among negative ones.
_PATTERNS = (
    _Pattern((1.25, 1.75), (1,)),
    _Pattern((-0.75, -0.25), (1, 2)),
    _Pattern((-0.5, 0.5), (2, 5, 3)),
)


def _paying_tokens(
    times: Mapping[tuple[int, int], int], rows: Sequence[int], length: int, crowd: tuple[int, int]
) -> int:
    """The tokens of the smallest batch that no larger one beats markedly by the token; no bound if a crowd does."""
    paying = paying_rows({each: times[each, length] for each in rows})
    tokens = paying * length
    if paying == rows[-1] and times[crowd] / (crowd[0] * crowd[1]) < times[paying, length] / tokens * PAYS_FROM:
        return NO_BOUND
    return max(tokens, _LEAST_TOKENS)


def _axis_that_follows(padded: Array, own: Array, length: int) -> int | None:
    """The dimension, the batch not counted, in which `own` is as long as the request and `padded` is longer."""
    if padded.ndim != own.ndim:
        return None
    pairs: Iterator[tuple[int, tuple[int, int]]] = enumerate(zip(own.shape[1:], padded.shape[1:], strict=True))
    return next((axis for axis, (mine, theirs) in pairs if mine == length < theirs), None)


def prove_padding(
    name: str, executor: Executor, description: ModelDescription, padding: Padding, origin: Origin, free_size: int
) -> tuple[Padding | None, Worth | None]:
    """`padding` if it may be used, and what it is worth.

    What nobody asked for must be proved; what the model says must not be disproved; what the operator says stays, and
    the log says what it does.
    """
    trial = Trial(name, executor, description, padding, free_size)
    lengths = trial.lengths()
    if lengths is None:
        if origin == "inferred":
            return None, None
        log.warning("model %s: padding could not be tried, as the model takes no sample that could be made up", name)
        return padding, None
    flaw = trial.flaw(lengths)
    if flaw is not None:
        if origin == "configuration":
            log.warning("model %s: %s; it is padded all the same, as padding.inputs says so", name, flaw)
        else:
            level = logging.INFO if origin == "inferred" else logging.WARNING
            log.log(level, "model %s: %s; it is served without padding", name, flaw)
            return None, None
    return padding, trial.worth(lengths)

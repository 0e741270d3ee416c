"""First runs of a model: they make it ready, show whether its rows are independent, and time it.

A bare model file does not say that its first dimension is a batch. It is taken for one when that dimension is free in
every tensor and a batch of two different rows gives what each row gives alone.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

from guepard.backends.base import Executor, Outputs
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.core.tensor import Array, Tensor, TensorSpec, empty_array
from guepard.engine.interpreter_hold import Hold, measure_hold

log = logging.getLogger(__name__)

# What a free dimension might be: 1 where anything goes, then sizes that windows, kernels and tokenisers accept.
_FREE_SIZES = (1, 16, 128, 224)

_TIMED_RUNS = 3
_ENOUGH_NS = 150_000_000  # runs that took so long together say enough

# Batch sizes that are tried between one row and a full batch, and how much cheaper per row a larger one must be.
_TRIED_SIZES = (4, 16)
PAYS_FROM = 0.97
_LONG_NS = 1_000_000_000  # runs of so long are spared where smaller ones have shown that rows do not get cheaper

_TOLERANCE = {"rtol": 1e-3, "atol": 1e-5}


class Timing(NamedTuple):
    """Nanoseconds of the fastest run with one row and with a full batch, which may be reckoned from smaller ones."""

    one: int
    full: int


class Warmup(NamedTuple):
    """`timing` None: the model accepted no sample that could be made up. `rows_independent` None: not asked.

    `paying_rows`: the smallest batch at which a row costs about as little as it ever does. For models that keep a core
    busy with a few rows larger batches cost nobody less, and make everybody wait longer. `free_size`: the size of free
    dimensions that the model accepts. `hold`: how long a full batch kept the interpreter from everybody else; None for
    engines, which let go of it, and for models in a process of their own.
    """

    timing: Timing | None
    rows_independent: bool | None
    paying_rows: int = 1
    free_size: int = 1
    hold: Hold | None = None


def warm_up(name: str, executor: Executor, description: ModelDescription, max_rows: int) -> Warmup:
    """Run zero-valued samples of one row and of `max_rows` rows. Raises nothing: what fails is logged and reported.

    Shapes: free dimensions get the first size in `_FREE_SIZES` that the model accepts.
    """
    size = _accepted_size(name, executor, description)
    if size is None:
        return Warmup(None, None)
    independent = None
    # An operator's word that rows are independent is tried as well where an engine runs: code may count its runs.
    if min(max_rows, description.max_batch_size) > 1 and (not description.batch_verified or bool(description.engine)):
        independent = _rows_independent(name, executor, description, size)
    batched = description.max_batch_size > 0 and (description.batch_verified or independent is True)
    sizes = [1, *[rows for rows in (*_TRIED_SIZES, max_rows) if 1 < rows <= max_rows]] if batched else [1]
    times = _times(executor, description, sizes, size)
    hold = None
    threads = getattr(executor, "python_threads", None)
    if threads is not None:
        full = samples(description, sizes[-1], size)
        hold = _hold(lambda: run_arrays(executor, full, description), threads)
    return Warmup(Timing(times[1], times[sizes[-1]]), independent, paying_rows(times), size, hold)


def _times(executor: Executor, description: ModelDescription, sizes: Sequence[int], free_size: int) -> dict[int, int]:
    """Of a run with each of `sizes` rows, the fastest; of what would take long and show nothing new, what it would."""
    times: dict[int, int] = {}
    for rows in sizes:
        before = max(times, default=0)
        estimate = times[before] * rows // before if before else 0
        if estimate > _LONG_NS and before > 1 and paying_rows(times) == 1:
            times[rows] = estimate
        else:
            times[rows] = _fastest(executor, samples(description, rows, free_size), description)
    return times


def _hold(run: Callable[[], object], threads: Sequence[int]) -> Hold:
    """Of three runs the one in the middle: what else the machine does can make it more, and less."""
    holds = [measure_hold(run, threads)]
    if holds[0].held_ns and holds[0].run_ns <= _ENOUGH_NS:
        holds += [measure_hold(run, threads) for _ in range(2)]
    return sorted(holds, key=lambda hold: hold.share)[len(holds) // 2]


def paying_rows(times: Mapping[int, int]) -> int:
    """The smallest of the batch sizes in `times` that no larger one beats by more than 3 % per row."""
    chosen, cost = 1, times[1] * PAYS_FROM
    for rows, time in sorted(times.items()):
        if time / rows < cost:
            chosen, cost = rows, time / rows * PAYS_FROM
    return chosen


def run_sample(executor: Executor, description: ModelDescription, rows: int, free_size: int) -> Outputs:
    """One more run as warm-up does them: zeros, free dimensions of `free_size`."""
    return run_arrays(executor, samples(description, rows, free_size), description)


def _accepted_size(name: str, executor: Executor, description: ModelDescription) -> int | None:
    free = any(spec.free for spec in description.inputs)
    failure: Exception | None = None
    for size in _FREE_SIZES if free else _FREE_SIZES[:1]:
        try:
            run_arrays(executor, samples(description, 1, size), description)
        except Exception as error:
            failure = error
        else:
            return size
    cause = failure.__cause__ if failure is not None else None
    log.warning(
        "model %s: warm-up with made-up samples failed, so it is served cold: %s", name, failure, exc_info=cause
    )
    return None


def _rows_independent(name: str, executor: Executor, description: ModelDescription, size: int) -> bool:
    """Whether a batch of two different rows equals the two rows run alone."""
    pair = [_distinct_rows(spec, size) for spec in description.inputs]
    # Both orders: what only flows down the rows, as in a running sum, must not hide behind a first row of zeros.
    pairs = [pair, [array[::-1] for array in pair]]
    # Integers of 0 and 1 hide products. Larger ones are tried where the model takes them: an index may be too large.
    kinds = [spec.datatype.kind for spec in description.inputs]
    larger = [array + 2 if kind == "int" else array for kind, array in zip(kinds, pair, strict=True)]
    if "int" in kinds and _takes_each_row(executor, description, larger):
        pairs.append(larger)
    return all(_is_sum_of_its_rows(name, executor, description, rows) for rows in pairs)


def _takes_each_row(executor: Executor, description: ModelDescription, pair: list[Array]) -> bool:
    try:
        for row in (0, 1):
            run_arrays(executor, [array[row : row + 1] for array in pair], description)
    except Exception:
        return False
    return True


def _is_sum_of_its_rows(name: str, executor: Executor, description: ModelDescription, pair: list[Array]) -> bool:
    try:
        together = run_arrays(executor, pair, description)
        alone = [run_arrays(executor, [array[row : row + 1] for array in pair], description) for row in (0, 1)]
    except Exception as error:
        _report_dependence(name, description, f"a batch of two was refused ({error})")
        return False
    for index, (spec, output) in enumerate(zip(description.outputs, together, strict=True)):
        expected = [alone[row][index] for row in (0, 1)]
        if output.shape[:1] != (2,) or not all(same(output[row : row + 1], expected[row]) for row in (0, 1)):
            _report_dependence(name, description, f"rows of one batch influence each other in output {spec.name!r}")
            return False
    return True


def _report_dependence(name: str, description: ModelDescription, reason: str) -> None:
    if description.batch_verified:
        log.warning("model %s: %s, so answers depend on who shares a batch; set max_batch_size to 0", name, reason)
    else:
        log.info("model %s: %s, so it is served without batches", name, reason)


def same(left: Array, right: Array) -> bool:
    """Whether two answers are one, as far as the order of sums lets floats be."""
    if left.shape != right.shape:
        return False
    if left.dtype.kind == "f":
        return bool(np.allclose(left.astype(np.float64), right.astype(np.float64), equal_nan=True, **_TOLERANCE))
    return bool(np.array_equal(left, right))


def _distinct_rows(spec: TensorSpec, size: int) -> Array:
    """Two rows that differ, of small values that suit indices as well as measurements.

    Measurements are neither 0 nor 1, whose products and powers are themselves and so hide what rows do to one another.
    """
    pair = empty_array(spec, _shape(spec, 2, size))
    if spec.datatype.kind == "bytes":
        pair[1] = b"a"
    elif spec.datatype.kind == "float" and spec.plain:
        pair[0] = np.linspace(0.25, 0.75, pair[0].size).reshape(pair[0].shape)
        pair[1] = np.linspace(1.75, 1.25, pair[1].size).reshape(pair[1].shape)
    elif spec.datatype.name == "BF16":
        pair[1] = 0x3F80  # 1.0
    else:
        pair[1] = 1
    return pair


def samples(description: ModelDescription, rows: int, size: int) -> list[Array]:
    """Zeros for each input, free dimensions of `size`."""
    batched = description.max_batch_size > 0
    return [empty_array(spec, _shape(spec, rows if batched else None, size)) for spec in description.inputs]


def _shape(spec: TensorSpec, rows: int | None, size: int) -> list[int]:
    dims = [size if dim == -1 else dim for dim in spec.dims]
    return dims if rows is None else [rows, *dims]


def _fastest(executor: Executor, inputs: Sequence[Array], description: ModelDescription) -> int:
    best = total = 0
    for _ in range(_TIMED_RUNS):
        start = perf_counter_ns()
        run_arrays(executor, inputs, description)
        took = perf_counter_ns() - start
        best = min(best or took, took)
        total += took
        if total > _ENOUGH_NS:
            break
    return best


def run_arrays(executor: Executor, inputs: Sequence[Array], description: ModelDescription) -> Outputs:
    """Run `inputs` as a request of nobody's. Raises: whatever the executor raises."""
    requests = [_synthetic_request(inputs, description)]
    if description.decoupled:
        last: Outputs = ()
        for outputs in executor.execute_stream(inputs, requests):
            last = outputs
        return last
    return executor.execute(inputs, requests)


def _synthetic_request(inputs: Sequence[Array], description: ModelDescription) -> InferenceRequest:
    tensors = [
        Tensor(spec.name, spec.datatype.name, array) for spec, array in zip(description.inputs, inputs, strict=True)
    ]
    request = InferenceRequest(tensors, NOBODY, 0)
    request.arrays = inputs
    request.rows = len(inputs[0]) if description.max_batch_size and inputs else 1
    request.deadline = 2**63
    return request

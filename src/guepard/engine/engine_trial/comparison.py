"""Engines beside the reference engine, one after the other: do they say the same, and how fast are they?

Everything happens on the calling thread of a process that does nothing else, so that what is measured is the engines.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import monotonic_ns
from typing import NamedTuple

from guepard.backends.base import Executor, LoadedModel, Outputs
from guepard.core.engine_options import PRECISIONS, EngineOptions, Precision
from guepard.core.errors import GuepardError, LoadError
from guepard.core.model_config import ModelDescription
from guepard.core.tensor import Array, TensorSpec
from guepard.engine.cpu_times import thread_ids
from guepard.engine.engine_trial.agreement import agreement
from guepard.engine.engine_trial.decision import CLEARLY_FASTER, Candidate
from guepard.engine.engine_trial.messages import Answers, Begins, Done, Message, Refused, TrialOrder, Tried
from guepard.engine.engine_trial.samples import SampleMaker
from guepard.engine.sample_file import read_sample, sample_arrays
from guepard.engine.timed_turns import TimedTurns
from guepard.engine.warmup import run_arrays, run_sample

log = logging.getLogger(__name__)

_ROWS = 8  # of a sample, if there is time
_BATCH = 4  # rows of the larger batch that is timed
_SAMPLES_NS = 600_000_000  # for the reference's answers to all samples
_KINDS = 3
_SHARE = 0.5  # of the time that is left, for one candidate's runs
_TURNS_NS = 1_000_000_000  # of one batch size at most
_ENOUGH_NS = 150_000_000  # turns that took so long together say enough
_FEWEST, _MOST = 2, 12  # turns of one batch size
_CLEAR = 0.08  # away from what decides: a few turns say so

Load = Callable[[str, Precision | None], LoadedModel]
Precisions = Callable[[str], Sequence[Precision]]


class _Times(NamedTuple):
    """Of one row. Units: nanoseconds."""

    candidate: int
    reference: int

    @property
    def ratio(self) -> float:
        return self.reference / max(1, self.candidate)


class Comparison:
    """`load` loads the model of the order, `precisions` are those that an engine is good at, the fastest first.

    `tell` gets messages as the work goes on.
    """

    def __init__(self, order: TrialOrder, load: Load, precisions: Precisions, tell: Callable[[Message], None]) -> None:
        self._order = order
        self._load = load
        self._precisions = precisions
        self._tell = tell
        self._threads_before = thread_ids()
        self._one_ns = 0  # of a row on the reference engine
        self._samples: list[list[Array]] = []
        self._expected: list[Outputs] = []
        self._best = 1.0  # ratio of those that will do

    def run(self) -> None:
        """Raises: nothing but what ends the process."""
        self._tell(Begins(self._order.reference, "", False))
        try:
            model = self._load(self._order.reference, None)
            self._reference = model.executor()
            self._description = model.description
            self._make_samples()
        except Exception as error:
            self._tell(Refused(_words(error)))
            return
        for engine, precision, is_last in self._candidates():
            self._tell(Begins(engine, precision, is_last))
            self._tell(Tried(self._try(engine, precision)))
        self._tell(Done())

    def _candidates(self) -> Iterable[tuple[str, Precision, bool]]:
        order = self._order
        for place, engine in enumerate(order.engines):
            if (engine, "") in order.tried:
                continue
            is_last = place + 1 == len(order.engines)
            self._tell(Begins(engine, "", is_last))
            try:
                able = allowed(self._precisions(engine), order.source.policy.engines)
            except Exception as error:
                self._tell(Tried(Candidate(engine=engine, precision="", rejected=_words(error))))
                continue
            if not able:
                rejected = "it computes in no precision that is allowed"
                self._tell(Tried(Candidate(engine=engine, precision="", rejected=rejected)))
            left = [precision for precision in able if (engine, precision) not in order.tried]
            for precision in left:
                yield engine, precision, is_last and precision == left[-1]

    def _try(self, engine: str, precision: Precision) -> Candidate:
        candidate = partial(Candidate, engine=engine, precision=precision)
        model: LoadedModel | None = None
        started = monotonic_ns()
        try:
            model = self._load(engine, precision)
            objection = _described_otherwise(self._description, model.description)
            if objection:
                return candidate(rejected=objection)
            executor = model.executor()
            load_ns = monotonic_ns() - started
            actual = [self._run(executor, self._samples[0])]
            self._tell(Answers())
            actual += [self._run(executor, sample) for sample in self._samples[1:]]
            agreed = agreement(
                self._description.outputs,
                self._expected,
                actual,
                self._order.source.policy.engines.tolerance,
                batched=self._order.rows is not None,
            )
            known = partial(candidate, cosine=agreed.cosine, top1=agreed.top1, load_ns=load_ns)
            if agreed.objection:
                return known(rejected=agreed.objection)
            times = self._time(executor)
            if not times:
                return known(rejected="there was no time to measure it", is_cut=True)
            ratio = round(min(each.ratio for each in times), 3)  # nobody could tell more places from noise
            self._best = max(self._best, ratio)
            return known(row_ns=times[0].candidate, reference_row_ns=times[0].reference, ratio=ratio)
        except Exception as error:
            return candidate(rejected=_words(error))
        finally:
            if model is not None:
                model.close()

    # Samples

    def _make_samples(self) -> None:
        """Those that the reference engine takes, and its answers. Raises: LoadError when it takes none."""
        order, description = self._order, self._description
        rows = None if order.rows is None else 1
        size = order.free_size
        run_sample(self._reference, description, 1, size)
        started = monotonic_ns()
        run_sample(self._reference, description, 1, size)
        self._one_ns = monotonic_ns() - started
        if order.rows is not None:
            rows = max(1, min(_ROWS, order.rows, _SAMPLES_NS // (_KINDS * max(1, self._one_ns))))
        document = read_sample(order.source.path)
        recorded = None if document is None else sample_arrays(document, description.inputs)
        for sample in (*SampleMaker(description.inputs, size, rows, self._accepts).samples(), recorded):
            expected = None if sample is None else self._answer(sample)
            if sample is not None and expected is not None:
                self._samples.append(sample)
                self._expected.append(expected)
        if not self._samples:
            raise LoadError("the reference engine takes no sample that could be made up")

    def _answer(self, sample: Sequence[Array]) -> Outputs | None:
        """The reference engine's; None when it refuses the sample."""
        try:
            return self._run(self._reference, sample)
        except Exception:
            return None

    def _accepts(self, sample: Sequence[Array]) -> bool:
        return self._answer(sample) is not None

    def _run(self, executor: Executor, sample: Sequence[Array]) -> Outputs:
        return run_arrays(executor, sample, self._description)

    # Times

    def _time(self, executor: Executor) -> list[_Times]:
        """With one row and with a small batch, as far as there is time."""
        helpers = thread_ids() - self._threads_before
        times: list[_Times] = []
        for rows in self._batches():
            measured = self._time_batch(executor, rows, helpers)
            if measured is None:
                break
            times.append(measured)
        return times

    def _batches(self) -> list[int]:
        limit = self._order.rows or 1
        return [1, min(_BATCH, limit)] if limit > 1 else [1]

    def _time_batch(self, executor: Executor, rows: int, helpers: set[int]) -> _Times | None:
        turns = TimedTurns(self._reference, executor, helpers)
        sample = self._rows_of_a_sample(rows)
        limit = min(_TURNS_NS, int((self._order.deadline_ns - monotonic_ns()) * _SHARE))
        if 2 * self._one_ns * rows * _FEWEST > limit:
            return None

        def run(which: Executor) -> Outputs:
            return self._run(which, sample)

        run(executor)  # of a new shape, which takes longer the first time
        turns.run(run, _FEWEST)
        done = _FEWEST
        while done < _MOST and (turns.spent < _ENOUGH_NS or not self._is_clear(turns, executor, rows)):
            if turns.spent + turns.turn > limit:
                break
            turns.run(run, 1)
            done += 1
        return self._times(turns, executor, rows)

    def _rows_of_a_sample(self, rows: int) -> list[Array]:
        """Of the first sample so many rows, repeated where it has fewer."""
        sample = self._samples[0]
        if self._order.rows is None:
            return sample
        return [array.repeat(-(-rows // len(array)), axis=0)[:rows] for array in sample]

    def _is_clear(self, turns: TimedTurns, executor: Executor, rows: int) -> bool:
        """Whether it is far from what decides: clearly faster than the reference, and about as fast as the best."""
        ratio = self._times(turns, executor, rows).ratio
        bounds = (CLEARLY_FASTER, self._best / CLEARLY_FASTER)
        return ratio < bounds[0] * (1 - _CLEAR) or all(abs(ratio / bound - 1) > _CLEAR for bound in bounds)

    def _times(self, turns: TimedTurns, executor: Executor, rows: int) -> _Times:
        """What an execution costs: the time it takes, or if that is more, its CPU time by the threads it may have.

        An engine that takes more threads than it was given is quick while the machine is idle, and slow under load.
        """
        threads = max(1, self._order.source.threads)

        def cost(which: Executor) -> int:
            return max(turns.times[which], turns.cpu[which] // threads) // rows

        return _Times(cost(executor), cost(self._reference))


def allowed(precisions: Sequence[Precision], options: EngineOptions) -> list[Precision]:
    """Those of `precisions` that the operator lets us choose."""
    least = len(PRECISIONS) - 1 if options.min_precision is None else PRECISIONS.index(options.min_precision)
    return [
        precision
        for precision in precisions
        if options.precision in (None, precision) and PRECISIONS.index(precision) <= least
    ]


def _described_otherwise(reference: ModelDescription, candidate: ModelDescription) -> str:
    """Why callers would notice another engine; "": they would not."""

    def words(specs: Iterable[TensorSpec]) -> list[tuple[str, str, tuple[int, ...]]]:
        return [(spec.name, spec.datatype.name, spec.dims) for spec in specs]

    for role, mine, theirs in (
        ("inputs", reference.inputs, candidate.inputs),
        ("outputs", reference.outputs, candidate.outputs),
    ):
        if words(mine) != words(theirs):
            return f"it describes the model's {role} otherwise: {words(theirs)}"
    if bool(reference.max_batch_size) != bool(candidate.max_batch_size):
        return "it takes batches where the reference engine does not, or the other way round"
    return ""


def _words(error: BaseException) -> str:
    if isinstance(error, LoadError):
        return str(error)
    log.debug("an engine failed on trial", exc_info=error)
    return error.message if isinstance(error, GuepardError) else f"it raised {type(error).__name__}"

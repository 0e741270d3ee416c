"""What the engine does by itself: the limit for models that compute, once in each turn."""

from collections.abc import Iterator
from functools import partial

from benchmarks.comparisons.records import EngineRecord
from benchmarks.comparisons.setting import CORES, SMALL_MODELS
from benchmarks.comparisons.visit import Load
from benchmarks.models import ReferenceModel
from benchmarks.serving import raw_engine
from benchmarks.serving.process import observe_quietly


def measure_engine(model: ReferenceModel, load: Load, turn: int) -> Iterator[EngineRecord]:
    """In a process of its own, one row at a time and in the batches that the contenders may form."""
    for batch_size in (1, 64) if model.name in SMALL_MODELS else (1, 4):
        measured = partial(raw_engine.measure, model, batch_size, load.duration_s, threads_for(model))
        rate, seen = observe_quietly(measured, attempts=load.attempts, patience_s=load.patience_s)
        yield EngineRecord(
            model=model.name,
            turn=turn,
            batch_size=batch_size,
            inferences_per_second=round(rate, 1),
            is_quiet=seen.is_quiet,
        )


def threads_for(model: ReferenceModel) -> int:
    """Two threads that run a tiny model are slower than one: they wait for the interpreter's lock."""
    return 1 if model.name in SMALL_MODELS else CORES

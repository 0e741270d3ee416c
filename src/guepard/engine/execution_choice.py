"""Where a model runs, and why: on the event loop, on threads beside it, or in processes of its own."""

from typing import Literal, NamedTuple

from guepard.core.model_config import Execution, ModelDescription
from guepard.engine.interpreter_hold import Hold
from guepard.engine.warmup import Timing

# Below these a hand-over to a thread costs more than it frees: one row, and what a full batch may hold the loop for.
_INLINE_ONE_NS = 150_000
_INLINE_FULL_NS = 1_000_000

# From here on Python code that keeps the interpreter to itself holds up others by more than a process costs it.
_HOLD_NS = 2_000_000
_HOLD_SHARE = 0.35  # a busy loop measures from 0.4 on: the watcher gets a turn every few milliseconds


class ExecutionChoice(NamedTuple):
    """`reason` completes a sentence: "it runs in a process: ..."."""

    execution: Execution
    reason: str


def choose_execution(
    asked: Execution | Literal["auto"],
    description: ModelDescription,
    timing: Timing | None,
    hold: Hold | None,
    *,
    may_move: bool,
) -> ExecutionChoice:
    """`timing` and `hold` are None where warm-up could not measure them. `may_move`: another process could load it.

    Python code is never put on the loop unasked: it may block where a sample did not. That goes for Python code between
    the calls of an engine, too.
    """
    if asked == "process":
        return ExecutionChoice("process", "as configured")
    if description.decoupled:
        return ExecutionChoice("thread", "it gives its answers one by one")
    if asked != "auto":
        return ExecutionChoice(asked, "as configured")
    if timing is None:
        return ExecutionChoice("thread", "it accepted no warm-up sample, so nothing was measured")
    if description.releases_gil and hold is None:
        return _choose_for_engine(timing)
    return _choose_for_python(hold, may_move)


def _choose_for_engine(timing: Timing) -> ExecutionChoice:
    one, full = f"one row takes {_text(timing.one)}", f"a full batch {_text(timing.full)}"
    if timing.one <= _INLINE_ONE_NS and timing.full <= _INLINE_FULL_NS:
        return ExecutionChoice("inline", f"{one}, {full}")
    return ExecutionChoice("thread", f"{one}, {full}: too long for the event loop")


def _choose_for_python(hold: Hold | None, may_move: bool) -> ExecutionChoice:
    if hold is None:
        return ExecutionChoice("thread", "it is not an engine that is safe on the event loop")
    share = f"Python code that kept the interpreter for {_text(hold.held_ns)} of {_text(hold.run_ns)} a batch"
    if hold.held_ns < _HOLD_NS or hold.share < _HOLD_SHARE:
        return ExecutionChoice("thread", share)
    if not may_move:
        return ExecutionChoice("thread", f"{share}, but of a class that was handed over and has no file of its own")
    return ExecutionChoice("process", share)


def _text(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:.3g} ms" if duration_ns >= 1_000_000 else f"{duration_ns / 1e3:.0f} µs"

"""Where a model runs, by what was asked and what was measured."""

from dataclasses import replace
from typing import Any

import pytest

from guepard.core.model_config import ModelDescription
from guepard.core.tensor import TensorSpec
from guepard.engine.execution_choice import choose_execution
from guepard.engine.interpreter_hold import Hold
from guepard.engine.warmup import Timing

US, MS = 1_000, 1_000_000
TENSORS = ((TensorSpec("x", "FP32", [1]),), (TensorSpec("y", "FP32", [1]),))
PYTHON = ModelDescription("python", "python", *TENSORS, max_batch_size=8, releases_gil=False)
ENGINE = replace(PYTHON, platform="onnx", backend="onnxruntime", releases_gil=True)
STREAM = replace(PYTHON, decoupled=True)
QUICK, SLOW = Timing(40 * US, 300 * US), Timing(300 * US, 9 * MS)
HELD, FREE, BRIEF = Hold(20 * MS, 19 * MS), Hold(20 * MS, 6 * MS), Hold(2 * MS, 1_900 * US)


@pytest.mark.parametrize(
    ("asked", "description", "timing", "hold", "may_move", "chosen", "reason"),
    [
        ("process", ENGINE, QUICK, None, True, "process", "as configured"),
        ("process", STREAM, None, None, True, "process", "as configured"),
        ("thread", ENGINE, QUICK, None, True, "thread", "as configured"),
        ("inline", PYTHON, SLOW, HELD, True, "inline", "as configured"),
        ("inline", STREAM, QUICK, None, True, "thread", "it gives its answers one by one"),
        ("auto", STREAM, QUICK, HELD, True, "thread", "it gives its answers one by one"),
        ("auto", ENGINE, None, None, True, "thread", "it accepted no warm-up sample, so nothing was measured"),
        ("auto", PYTHON, None, None, True, "thread", "it accepted no warm-up sample, so nothing was measured"),
        ("auto", ENGINE, QUICK, None, True, "inline", "one row takes 40 µs, a full batch 300 µs"),
        ("auto", ENGINE, Timing(151 * US, 300 * US), None, True, "thread", "too long for the event loop"),
        ("auto", ENGINE, Timing(40 * US, 1_001 * US), None, True, "thread", "a full batch 1 ms: too long"),
        (
            "auto",
            ENGINE,
            QUICK,
            Hold(40 * US, 9 * US),
            True,
            "thread",
            "kept the interpreter for 9 µs of 40 µs a batch",
        ),
        ("auto", ENGINE, SLOW, HELD, True, "process", "kept the interpreter for 19 ms of 20 ms a batch"),
        ("auto", PYTHON, QUICK, None, True, "thread", "not an engine that is safe on the event loop"),
        ("auto", PYTHON, SLOW, HELD, True, "process", "kept the interpreter for 19 ms of 20 ms a batch"),
        ("auto", PYTHON, SLOW, HELD, False, "thread", "but of a class that was handed over and has no file"),
        ("auto", PYTHON, SLOW, FREE, True, "thread", "kept the interpreter for 6 ms of 20 ms a batch"),
        ("auto", PYTHON, SLOW, BRIEF, True, "thread", "kept the interpreter for 1.9 ms of 2 ms a batch"),
        ("auto", PYTHON, SLOW, Hold(20 * MS, 7 * MS), True, "process", "for 7 ms of 20 ms"),
        ("auto", PYTHON, SLOW, Hold(2 * MS, 2 * MS), True, "process", "for 2 ms of 2 ms"),
    ],
)
def test_the_choice(
    asked: Any, description: ModelDescription, timing: Any, hold: Any, may_move: bool, chosen: str, reason: str
) -> None:
    choice = choose_execution(asked, description, timing, hold, may_move=may_move)
    assert choice.execution == chosen
    assert reason in choice.reason

"""Engines in a process of their own, which some of them ruin."""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from guepard.backends.base import ModelSource
from guepard.core.model_config import ModelPolicy
from guepard.engine.engine_trial import trial
from guepard.engine.engine_trial.decision import Candidate
from guepard.engine.engine_trial.messages import Answers, Begins, Done, Message, TrialOrder
from guepard.engine.engine_trial.trial import TrialFailed, try_engines
from guepard.engine.processes.interpreter import start_interpreter
from tests.services.fake_engines import ENGINES, REFERENCE

HOMES = {name: ("tests.services.fake_engines", each.__name__) for name, each in ENGINES.items()}


def order(*engines: str, seconds: float = 30.0) -> TrialOrder:
    deadline_ns = monotonic_ns() + int(seconds * 1e9)
    return TrialOrder(ModelSource("m", "1", Path(), ModelPolicy()), REFERENCE, engines, HOMES, 1, 1, deadline_ns)


def names(found: list[Candidate]) -> list[str]:
    return [candidate.name for candidate in found]


def test_a_crash_costs_the_candidate_and_the_others_are_tried() -> None:
    found, is_complete = try_engines(order("crashing", "faster"), 0)
    assert is_complete
    assert names(found) == ["crashing in bf16", "crashing in f32", "faster in f32"]
    assert found[0].rejected == "its trial was killed by SIGILL"
    assert not found[1].rejected
    assert found[2].ratio is not None


def test_a_hang_costs_no_more_than_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_SHARE", 0.04)
    found, _ = try_engines(order("hanging", seconds=20), 0)
    assert names(found) == ["hanging in bf16", "hanging in f32"]
    assert "did not end within" in found[0].rejected
    assert not found[1].rejected


def test_with_little_time_left_no_other_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_SHARE", 0.04)
    monkeypatch.setattr(trial, "_LEAST_NS", 10**12)
    found, is_complete = try_engines(order("hanging", seconds=20), 0)
    assert names(found) == ["hanging in bf16"]
    assert found[0].is_cut
    assert not is_complete


@pytest.mark.parametrize(
    ("begun", "share"),
    [
        (Begins("two_precisions", "bf16", False), trial._SHARE),
        (Begins("two_precisions", "bf16", True), 1),
        (Begins(REFERENCE, "", False), trial._REFERENCE_SHARE),
    ],
)
def test_nobody_is_waited_for_beyond_the_deadline(begun: Begins, share: float) -> None:
    follower = trial._Trial(order("two_precisions"), 0)
    follower._begin(begun)
    assert follower._deadline_ns <= follower._order.deadline_ns
    assert follower._deadline_ns - follower._since == pytest.approx(30e9 * share, rel=0.1)


def test_who_takes_too_much_memory_is_ended() -> None:
    (found,), _ = try_engines(order("swelling"), 200 << 20)
    assert found.rejected == "its trial took more memory than the 200 MiB that it may have"


def test_what_an_engine_logs_is_in_our_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    try_engines(order("refusing"), 0)
    assert "model m: on trial: Tanh is not there" in caplog.text


def test_a_reference_that_cannot_be_loaded_fails_it() -> None:
    with pytest.raises(TrialFailed, match="it lacks the operator Tanh"):
        try_engines(replace(order("faster"), reference="refusing"), 0)


def test_a_reference_that_crashes_fails_it() -> None:
    with pytest.raises(TrialFailed, match="the process in which engines are tried was killed by SIGILL"):
        try_engines(replace(order("faster"), reference="crashing_at_once"), 0)


def test_a_process_that_cannot_be_started_again_leaves_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    start = start_interpreter
    starts: list[int] = []

    def once(*arguments: Any, **streams: Any) -> Any:
        starts.append(len(starts))
        if len(starts) > 1:
            raise BlockingIOError("Resource temporarily unavailable")
        return start(*arguments, **streams)

    monkeypatch.setattr(trial, "start_interpreter", once)
    found, is_complete = try_engines(order("crashing", "faster"), 0)
    assert names(found) == ["crashing in bf16"]
    assert not is_complete


def test_one_that_answers_has_all_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = order("two_precisions")
    follower = trial._Trial(asked, 0)
    deadlines = []

    def messages() -> Iterator[Message]:
        for message in (Begins("two_precisions", "bf16", False), Answers(), Done()):
            yield message
            deadlines.append(follower._deadline_ns)

    monkeypatch.setattr(follower, "_messages", messages)
    assert follower.follow([])
    assert deadlines[0] < asked.deadline_ns == deadlines[1]


def test_a_process_that_cannot_be_started_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(trial, "start_interpreter", refuse)
    with pytest.raises(TrialFailed, match="no process could be started"):
        try_engines(order("faster"), 0)


def test_nothing_is_left_behind() -> None:
    descriptors, threads = set(os.listdir("/proc/self/fd")), threading.active_count()
    try_engines(order("crashing"), 0)
    assert set(os.listdir("/proc/self/fd")) == descriptors
    end = time.monotonic() + 5
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() <= threads

"""The threads on which requests are preprocessed."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event

import pytest

from guepard.engine.step_pool import _LONG_NS, _MOST_LONG, _NICENESS, Lane, StepPool
from guepard.testing.manual_scheduler import ManualScheduler

_PATIENCE_S = 10.0


class Job:
    """Says when it runs, and goes on when it may."""

    def __init__(self, name: str = "", *, may_end: bool = True) -> None:
        self.name = name
        self.is_done = False
        self.runs = Event()
        self.may_end = Event()
        if may_end:
            self.may_end.set()

    def run(self) -> None:
        self.runs.set()
        assert self.may_end.wait(_PATIENCE_S)

    def done(self) -> None:
        self.is_done = True


class Pool:
    def __init__(self, count: int) -> None:
        self.clock = ManualScheduler()
        self._posted: SimpleQueue[tuple[Callable[..., None], Lane, Job]] = SimpleQueue()
        self.pool = StepPool(count, self.clock, lambda *callback: self._posted.put(callback))

    def next_done(self) -> str:
        callback, lane, job = self._posted.get(timeout=_PATIENCE_S)
        callback(lane, job)
        assert job.is_done
        return job.name

    @property
    def has_more(self) -> bool:
        return not self._posted.empty()


@pytest.fixture
def one() -> Iterator[Pool]:
    pool = Pool(1)
    yield pool
    pool.pool.close()


def running(pool: Pool, count: int = 1) -> list[Job]:
    """So many jobs that run and do not end."""
    jobs = [Job("held", may_end=False) for _ in range(count)]
    lane = pool.pool.lane()
    for job in jobs:
        lane.put(job)
    for job in jobs:
        assert job.runs.wait(_PATIENCE_S)
    return jobs


def test_threads_are_started_when_they_are_needed() -> None:
    pool = Pool(3)
    assert pool.pool.threads == 0
    jobs = running(pool, 3)  # side by side, or none would run but the first
    assert pool.pool.threads == 3
    for job in jobs:
        job.may_end.set()
    assert [pool.next_done() for _ in jobs] == ["held"] * 3
    pool.pool.close()


def test_jobs_of_one_lane_run_in_order(one: Pool) -> None:
    (held,) = running(one)
    lane = one.pool.lane()
    for name in "abc":
        lane.put(Job(name))
    held.may_end.set()
    assert [one.next_done() for _ in range(4)] == ["held", "a", "b", "c"]


def test_lanes_take_turns(one: Pool) -> None:
    (held,) = running(one)
    busy, other = one.pool.lane(), one.pool.lane()
    for name in "abc":
        busy.put(Job(name))
    other.put(Job("x"))
    held.may_end.set()
    names = [one.next_done() for _ in range(5)]
    assert names.index("x") <= 2
    assert [name for name in names if name in "abc"] == ["a", "b", "c"]


def test_a_job_that_waits_can_be_dropped(one: Pool) -> None:
    (held,) = running(one)
    lane = one.pool.lane()
    dropped, last = Job("dropped"), Job("last")
    lane.put(dropped)
    lane.put(last)
    assert lane.drop(dropped)
    held.may_end.set()
    assert [one.next_done(), one.next_done()] == ["held", "last"]
    assert not lane.drop(last)
    assert not dropped.runs.is_set()


def test_a_lane_that_is_paused_waits_and_the_others_go_on(one: Pool) -> None:
    paused, other = one.pool.lane(), one.pool.lane()
    paused.pause(True)
    paused.put(Job("later"))
    other.put(Job("now"))
    assert one.next_done() == "now"
    assert not one.has_more
    paused.pause(False)
    assert one.next_done() == "later"


def test_a_loop_that_hears_of_nothing_is_not_run_away_from(one: Pool) -> None:
    lane, other = one.pool.lane(), one.pool.lane()
    jobs = [Job(name) for name in "abc"]
    for job in jobs:
        lane.put(job)
    assert jobs[1].runs.wait(_PATIENCE_S)
    other.put(last := Job("x"))
    assert last.runs.wait(_PATIENCE_S)
    assert not jobs[2].runs.is_set()
    assert one.next_done() == "a"
    assert jobs[2].runs.wait(_PATIENCE_S)


def test_jobs_of_a_lane_that_closes_are_dropped(one: Pool) -> None:
    (held,) = running(one)
    lane, other = one.pool.lane(), one.pool.lane()
    lane.put(Job("dropped"))
    other.put(Job("kept"))
    lane.close()
    lane.close()
    held.may_end.set()
    assert [one.next_done(), one.next_done()] == ["held", "kept"]


def test_a_job_that_hangs_costs_its_thread_and_nobody_else_anything(one: Pool) -> None:
    (held,) = running(one)
    lane = one.pool.lane()
    lane.put(Job("next"))
    one.clock.advance(_LONG_NS - 1)
    assert not one.has_more
    one.clock.advance(1)
    assert one.next_done() == "next"
    assert one.pool.threads == 2
    held.may_end.set()  # it comes back after all: one thread is one too many
    assert one.next_done() == "held"
    lane.put(Job("last"))
    assert one.next_done() == "last"
    assert one.pool.threads == 1


def test_with_very_many_that_hang_the_rest_waits(one: Pool) -> None:
    held = running(one)
    for _ in range(_MOST_LONG):
        job = Job("held", may_end=False)
        one.pool.lane().put(job)
        one.clock.advance(_LONG_NS)
        assert job.runs.wait(_PATIENCE_S)
        held.append(job)
    last = Job("last")
    one.pool.lane().put(last)
    one.clock.advance(3 * _LONG_NS)
    assert one.pool.threads == _MOST_LONG + 1
    assert not last.runs.is_set()
    for job in held:
        job.may_end.set()
    assert last.runs.wait(_PATIENCE_S)


def test_a_job_that_raises_costs_nothing(one: Pool, caplog: pytest.LogCaptureFixture) -> None:
    class Raises(Job):
        def run(self) -> None:
            raise SystemExit

    lane = one.pool.lane()
    lane.put(Raises("raises"))
    lane.put(Job("next"))
    assert [one.next_done(), one.next_done()] == ["raises", "next"]
    assert "a job of the threads for steps failed" in caplog.text


def test_threads_end_with_the_pool() -> None:
    pool = Pool(2)
    jobs = running(pool, 2)
    pool.pool.close()
    pool.pool.lane().put(Job("never"))
    for job in jobs:
        job.may_end.set()
    assert [pool.next_done(), pool.next_done()] == ["held", "held"]
    while pool.pool.threads:
        Event().wait(0.001)
    assert not pool.has_more


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no niceness of its own")
def test_threads_stand_back_for_the_loop(one: Pool) -> None:
    class Looks(Job):
        def run(self) -> None:
            self.name = str(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    one.pool.lane().put(Looks())
    assert int(one.next_done()) == max(mine, _NICENESS)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == mine


def test_a_loop_that_is_gone_ends_a_thread() -> None:
    gone = Event()

    def post(*callback: object) -> None:
        gone.set()
        raise RuntimeError

    pool = StepPool(1, ManualScheduler(), post)
    pool.lane().put(Job())
    assert gone.wait(_PATIENCE_S)
    pool.close()

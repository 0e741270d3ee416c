"""Threads that compute are never more than the CPUs, nobody is passed over, and nobody waits for what hangs."""

import threading
from collections.abc import Callable

import pytest

from guepard.core.model_config import SECOND
from guepard.engine.cpu_permits import CpuPermits, CpuShare
from guepard.engine.patience import Patience
from tests.services.waiting import wait_until


class Clock:
    """Permits on a clock that the test moves, and whose waits look only when the test says so."""

    def __init__(self, count: int, look_s: float = 60.0) -> None:
        self.now = 0
        self.permits = CpuPermits(count, lambda: self.now, look_s)

    def pass_s(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


def ask(permits: CpuPermits, share: CpuShare, granted: Callable[[], None] = lambda: None) -> threading.Thread:
    """A thread that asks for permits, and is known to wait for them when this returns."""

    def work() -> None:
        permits.acquire(share)
        granted()

    thread = threading.Thread(target=work, daemon=True)
    before = permits.waiting
    thread.start()
    wait_until(lambda: permits.waiting > before)
    return thread


def holder(permits: CpuPermits, count: int, patience: Patience | None = None) -> CpuShare:
    """One that has got its permits."""
    share = permits.share(count, patience, "slow")
    assert share.try_enter()
    return share


def free(permits: CpuPermits) -> int:
    """How many permits could be had now."""
    for count in range(permits.count, 0, -1):
        share = permits.share(count)
        if share.try_enter():
            permits.release(share)
            return count
    return 0


def test_what_is_free_is_given_at_once_and_what_is_not_is_waited_for() -> None:
    permits = CpuPermits(2)
    with permits.share(1), permits.share(1):
        assert free(permits) == 0
    assert free(permits) == 2


def test_they_come_back_after_a_failure_too() -> None:
    permits = CpuPermits(1)
    try:
        with permits.share(1):
            raise ValueError
    except ValueError:
        assert free(permits) == 1


def test_who_wants_many_is_not_passed_by_those_who_want_few() -> None:
    permits, order = CpuPermits(2), list[str]()
    first, many, few = permits.share(1), permits.share(2), permits.share(1)
    permits.acquire(first)
    wide = ask(permits, many, lambda: order.append("wide"))
    narrow = ask(permits, few, lambda: order.append("narrow"))
    assert free(permits) == 0
    permits.release(first)
    wide.join(10)
    assert order == ["wide"]
    permits.release(many)
    narrow.join(10)
    assert order == ["wide", "narrow"]


def test_one_release_serves_as_many_as_it_can() -> None:
    permits = CpuPermits(2)
    all_of_them = holder(permits, 2)
    waiting = [ask(permits, permits.share(1)) for _ in range(2)]
    permits.release(all_of_them)
    for thread in waiting:
        thread.join(10)
    assert not any(thread.is_alive() for thread in waiting)


def test_an_execution_of_more_threads_than_there_are_takes_all() -> None:
    permits = CpuPermits(2)
    with permits.share(5):
        assert free(permits) == 0
    assert free(permits) == 2


class TestOverdue:
    def test_what_is_held_for_too_long_goes_to_those_who_wait(self, caplog: pytest.LogCaptureFixture) -> None:
        clock = Clock(1)
        permits = clock.permits
        hung = holder(permits, 1)
        waiting = ask(permits, permits.share(1))
        clock.pass_s(5)
        permits.reclaim()
        assert (permits.waiting, caplog.text) == (1, "")
        clock.pass_s(0.1)
        permits.reclaim()
        waiting.join(10)
        assert not waiting.is_alive()
        assert "an execution of model slow has not ended after 5.1 s" in caplog.text
        hung.leave()
        assert free(permits) == 0, "what came back late has long been given to another"

    def test_those_who_wait_see_to_it_themselves(self) -> None:
        clock = Clock(1, look_s=0.001)
        holder(clock.permits, 1)
        waiting = ask(clock.permits, clock.permits.share(1))
        clock.pass_s(6)
        waiting.join(10)
        assert not waiting.is_alive()

    def test_who_comes_later_need_not_wait(self) -> None:
        clock = Clock(2)
        hung = [holder(clock.permits, 1), holder(clock.permits, 1)]
        clock.pass_s(4)
        assert free(clock.permits) == 0
        clock.pass_s(2)
        with clock.permits.share(1):
            assert free(clock.permits) == 1
        for share in hung:
            share.leave()
        assert free(clock.permits) == 2

    def test_what_is_slow_as_usual_is_waited_for(self) -> None:
        clock, patience = Clock(1), Patience()
        patience.remember(4 * SECOND)
        slow = holder(clock.permits, 1, patience)
        waiting = ask(clock.permits, clock.permits.share(1))
        clock.pass_s(20)
        clock.permits.reclaim()
        assert clock.permits.waiting == 1
        slow.leave()
        waiting.join(10)
        assert not waiting.is_alive()

    def test_executions_teach_what_is_usual_but_one_that_hung_for_hours_not_much(self) -> None:
        clock, patience = Clock(2), Patience()
        share = holder(clock.permits, 1, patience)
        clock.pass_s(3)
        share.leave()
        assert patience.ns == 15 * SECOND
        hung = holder(clock.permits, 1, patience)
        clock.pass_s(7_200)
        with clock.permits.share(2):
            hung.leave()
        assert patience.ns <= 5 * 15 * SECOND

    def test_one_that_was_given_up_may_ask_again(self) -> None:
        clock = Clock(1)
        hung = holder(clock.permits, 1)
        clock.pass_s(6)
        with clock.permits.share(1):
            pass
        hung.leave()
        with hung:
            assert free(clock.permits) == 0
        assert free(clock.permits) == 1

"""Threads that compute are never more than the CPUs, and nobody is passed over."""

import threading
from collections.abc import Callable

from guepard.engine.cpu_permits import CpuPermits
from tests.services.waiting import wait_until


def ask(permits: CpuPermits, count: int, granted: Callable[[], None]) -> threading.Thread:
    """A thread that asks for permits, and is known to wait for them when this returns."""

    def work() -> None:
        permits.acquire(count)
        granted()

    thread = threading.Thread(target=work, daemon=True)
    before = permits.waiting
    thread.start()
    wait_until(lambda: permits.waiting > before)
    return thread


def test_what_is_free_is_given_at_once_and_what_is_not_is_waited_for() -> None:
    permits = CpuPermits(2)
    with permits.share(1), permits.share(1):
        assert not permits.try_acquire(1)
    assert permits.try_acquire(2)


def test_they_come_back_after_a_failure_too() -> None:
    permits = CpuPermits(1)
    try:
        with permits.share(1):
            raise ValueError
    except ValueError:
        assert permits.try_acquire(1)


def test_who_wants_many_is_not_passed_by_those_who_want_few() -> None:
    permits, order = CpuPermits(2), list[str]()
    permits.acquire(1)
    wide = ask(permits, 2, lambda: order.append("wide"))
    narrow = ask(permits, 1, lambda: order.append("narrow"))
    assert not permits.try_acquire(1)
    permits.release(1)
    wide.join(10)
    assert order == ["wide"]
    permits.release(2)
    narrow.join(10)
    assert order == ["wide", "narrow"]


def test_one_release_serves_as_many_as_it_can() -> None:
    permits = CpuPermits(2)
    permits.acquire(2)
    waiting = [ask(permits, 1, lambda: None) for _ in range(2)]
    permits.release(2)
    for thread in waiting:
        thread.join(10)
    assert not any(thread.is_alive() for thread in waiting)


def test_an_execution_of_more_threads_than_there_are_takes_all() -> None:
    permits = CpuPermits(2)
    with permits.share(5):
        assert not permits.try_acquire(1)
    assert permits.try_acquire(2)

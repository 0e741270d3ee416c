"""How long real code keeps the interpreter: loops do, sleep and the large operations of numpy do not."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from guepard.engine.interpreter_hold import Hold, _Watcher, measure_hold

MS = 1_000_000


def spin(cpu_s: float = 0.02) -> None:
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        sum(range(100))


def most_of(measure: Callable[[], Hold]) -> Hold:
    """The most of some: how soon the interpreter changes hands is chance."""
    return max([measure() for _ in range(5)], key=lambda hold: hold.share)


def test_a_loop_keeps_it() -> None:
    hold = most_of(lambda: measure_hold(spin))
    assert hold.share >= 0.35


def test_waiting_does_not() -> None:
    """Also while other threads keep it: that is not the model's doing."""
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            spin(0.001)

    other = threading.Thread(target=keep_busy)
    other.start()
    try:
        hold = measure_hold(lambda: time.sleep(0.02))
    finally:
        stop.set()
        other.join()
    assert hold.held_ns < 2 * MS


def test_what_lets_go_of_it_does_not() -> None:
    matrix = np.ones((700, 700), np.float32)

    def multiply() -> None:
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            matrix @ matrix

    # The least of some: on a busy machine the watching thread may be kept from running by others.
    holds = [measure_hold(multiply) for _ in range(5)]
    assert min(hold.held_ns / hold.run_ns for hold in holds) < 0.5


def test_work_of_another_thread_counts_where_it_is_named() -> None:
    with ThreadPoolExecutor(1) as pool:
        helper = pool.submit(threading.get_ident).result()

        def run() -> None:
            pool.submit(spin).result()

        assert measure_hold(run).held_ns < 5 * MS
        assert most_of(lambda: measure_hold(run, [helper])).share >= 0.35


def test_what_is_raised_comes_through_and_no_thread_stays() -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        measure_hold(lambda: 1 / 0)
    assert threading.active_count() == before


def test_the_gaps_between_turns() -> None:
    """Less what a turn takes when all is calm, and less what it waited for a CPU."""

    def held(turns: list[int], waits: int = 0) -> int:
        watcher = _Watcher()
        calm = [(turn * MS, 0) for turn in range(11)]
        watcher._ticks = [*calm, *[(turn * MS, waits * MS * number) for number, turn in enumerate(turns, 1)]]
        return watcher.held_ns(10 * MS, 31 * MS)

    assert held([20, 30, 31]) == 16 * MS
    assert held([20, 30, 31], waits=3) == 16 * MS  # it waited for the interpreter first
    assert held([20, 30, 31], waits=8) == 0  # it waited for a CPU
    assert held(list(range(11, 32))) == 0
    assert held([200]) == 21 * MS  # no more than it ran

"""Every case of the micro-benchmarks runs."""

import pytest

from benchmarks.micro.timing.case import Case
from benchmarks.micro.timing.rounds import time_cases
from benchmarks.micro.timing.subjects import open_cases, subjects


@pytest.mark.parametrize("subject", subjects())
def test_cases_run_twice_and_are_told_apart(subject: str) -> None:
    with open_cases([subject]) as cases:
        assert cases
        for case in cases.values():
            assert case.calls > 0
            case.work()
            case.work()


def test_a_single_case_is_chosen_by_its_whole_name() -> None:
    with open_cases(["scatter: a batch of 8", "lone_sense"]) as cases:
        assert sorted(cases) == ["lone_sense: a turn with one request", "scatter: a batch of 8"]


def test_a_time_is_that_of_one_call() -> None:
    def work() -> None:
        sum(range(1_000))

    def works() -> None:
        for _ in range(10):
            work()

    times = time_cases({"one": Case("one", work), "ten": Case("ten", works, 10)}, rounds=3)
    assert times["one"].low <= times["one"].ratio <= times["one"].high
    assert 0.2 < times["ten"].ns / times["one"].ns < 5

"""What the watch over a process counts against a batch."""

from time import monotonic_ns

import pytest

from guepard.core.reasons import LossReason
from guepard.engine.processes.worker_process import WorkerProcess

SECOND = 1_000_000_000
LOOK = SECOND // 5


class Watched(WorkerProcess):
    """Without a process: what it is given up for is kept."""

    def __init__(self) -> None:
        self.given_up: list[tuple[LossReason, str]] = []
        self.looks = 0
        self._is_loaded = True
        self._watched_since = self._watched_ns = self._since = 0

    def give_up(self, loss: LossReason, fate: str, detail: str = "") -> None:
        self.given_up.append((loss, fate))

    def begin(self, limit_ns: int) -> None:
        """A batch that has run for an hour, as the clock says."""
        self.watch(limit_ns, self.look)
        self._since = monotonic_ns() - 3_600 * SECOND

    def look(self) -> None:
        self.looks += 1


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_only_time_that_was_watched_counts(watched: Watched) -> None:
    """The server may have been stopped, or the machine: then nobody knows that the batch ran meanwhile."""
    watched.begin(SECOND)
    for _ in range(5):
        watched._look_at_time(LOOK)
    assert not watched.given_up
    watched._look_at_time(LOOK)
    assert watched.given_up == [(LossReason.HUNG, "did not answer within 1 s (instance_timeout)")]
    assert watched.looks == 6


def test_each_batch_has_its_own_time(watched: Watched) -> None:
    for _ in range(10):
        watched.begin(SECOND)
        for _ in range(4):
            watched._look_at_time(LOOK)
        assert watched.rest() > SECOND
        watched._look_at_time(LOOK)
    assert not watched.given_up
    assert watched.looks == 40


def test_one_that_has_just_begun_is_not_charged_with_the_time_before(watched: Watched) -> None:
    watched.watch(LOOK // 2, watched.look)
    watched._look_at_time(LOOK)
    assert not watched.given_up

"""One timer for many deadlines: each request expires at its own, once, and the timer costs nothing in between."""

import random

from guepard.batching.deadline_watch import DeadlineWatch
from guepard.core.request import InferenceRequest
from guepard.testing.manual_scheduler import ManualScheduler
from tests.unit.batching.arrivals import arriving


class Watched:
    """Requests that are alive until they expire or are taken out, and when each expired."""

    def __init__(self) -> None:
        self.clock = ManualScheduler(start=0)
        self.alive: list[InferenceRequest] = []
        self.expired: dict[InferenceRequest, int] = {}
        self.watch = DeadlineWatch(self.clock, lambda: self.alive, self._expire)

    def add(self, deadline: int) -> InferenceRequest:
        request = arriving()
        request.deadline = deadline
        self.alive.append(request)
        self.watch.watch(deadline)
        return request

    def _expire(self, request: InferenceRequest) -> None:
        assert request not in self.expired, "expired twice"
        self.expired[request] = self.clock.now()
        self.alive.remove(request)


def test_each_request_expires_exactly_at_its_deadline() -> None:
    watched = Watched()
    random.seed(5)
    requests = [watched.add(random.randrange(1, 1_000)) for _ in range(50)]
    watched.clock.advance(1_000)
    assert watched.expired == {request: request.deadline for request in requests}


def test_one_timer_is_armed_however_many_wait_and_none_when_nobody_does() -> None:
    watched = Watched()
    assert watched.clock.armed == 0
    for deadline in (300, 100, 200, 400):
        watched.add(deadline)
        assert watched.clock.armed == 1
    watched.clock.advance(400)
    assert watched.clock.armed == 0


def test_a_request_that_was_answered_does_not_expire() -> None:
    watched = Watched()
    answered, late = watched.add(100), watched.add(200)
    watched.alive.remove(answered)
    watched.clock.advance(300)
    assert list(watched.expired) == [late]


def test_a_shorter_deadline_that_comes_later_is_kept() -> None:
    watched = Watched()
    watched.add(1_000)
    watched.clock.advance(10)
    short = watched.add(50)
    watched.clock.advance(40)
    assert watched.expired == {short: 50}


def test_a_deadline_in_the_past_expires_with_the_next_timer() -> None:
    watched = Watched()
    watched.clock.advance(100)
    late = watched.add(50)
    assert watched.expired == {}
    watched.clock.advance(0)
    assert watched.expired == {late: 100}


def test_nothing_expires_after_stop() -> None:
    watched = Watched()
    watched.add(100)
    watched.watch.stop()
    watched.clock.advance(500)
    assert watched.expired == {}
    assert watched.clock.armed == 0


def test_requests_that_expire_with_another_one_are_left_alone() -> None:
    """Expiring one part of a request ends its other parts as well."""
    watched = Watched()
    first, second = watched.add(100), watched.add(100)

    def expire_all(request: InferenceRequest) -> None:
        watched.expired[request] = watched.clock.now()
        watched.alive.clear()

    watched.watch.stop()
    watched.watch = DeadlineWatch(watched.clock, lambda: watched.alive, expire_all)
    watched.watch.watch(100)
    watched.clock.advance(100)
    assert first in watched.expired
    assert second not in watched.alive
    assert watched.clock.armed == 0

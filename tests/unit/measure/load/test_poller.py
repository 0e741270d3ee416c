"""Waiting for descriptors, also where `select` cannot."""

import os
import select
import time
from collections.abc import Iterator

import pytest

from guepard.measure.load import poller as module
from guepard.measure.load.poller import Poller


@pytest.fixture(params=["select", "epoll alone"])
def poller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poller]:
    """In a process with a thousand files open, epoll's own descriptor is beyond those that `select` can watch."""
    if request.param == "epoll alone":
        monkeypatch.setattr(module, "_SELECT_LIMIT", 0)
    made = Poller()
    yield made
    made.close()


def test_nothing_is_ready_before_the_time_is_over(poller: Poller) -> None:
    for timeout_s in (0.0035, 0.0004):
        began_s = time.monotonic()
        assert poller.ready(timeout_s) == []
        assert time.monotonic() - began_s >= timeout_s


def test_what_is_ready_is_handled_at_once(poller: Poller) -> None:
    ours, theirs = os.pipe()
    masks: list[int] = []
    poller.add(ours, masks.append)
    os.write(theirs, b"x")
    began_s = time.monotonic()
    poller.handle(poller.ready(60.0))
    assert masks == [select.EPOLLIN]
    assert time.monotonic() - began_s < 30
    poller.remove(ours)
    os.close(ours)
    os.close(theirs)


def test_the_limit_is_that_of_select() -> None:
    with pytest.raises(ValueError, match="out of range"):
        select.select([module._SELECT_LIMIT], [], [], 0)

"""Permits for request bodies."""

import pytest

from guepard.core.errors import Overloaded, PayloadTooLarge
from guepard.limits.admission import Admission


def test_permits_add_up_to_the_bound_and_come_back() -> None:
    admission = Admission(100)
    admission.acquire(60)
    admission.acquire(40)
    with pytest.raises(Overloaded, match="100 bytes of requests are in flight and 1 more exceed the bound of 100"):
        admission.acquire(1)
    assert admission.inflight_bytes == 100
    admission.release(60)
    admission.acquire(1)
    assert admission.inflight_bytes == 41


def test_a_body_larger_than_the_bound_is_refused_on_an_idle_server() -> None:
    admission = Admission(100)
    with pytest.raises(PayloadTooLarge, match="101 bytes or more exceeds 100 bytes") as refusal:
        admission.acquire(101)
    assert refusal.value.retry_after_ms is None, "waiting does not make it fit"
    assert admission.inflight_bytes == 0


def test_so_is_one_that_comes_in_parts() -> None:
    admission = Admission(100)
    admission.acquire(60)
    with pytest.raises(PayloadTooLarge):
        admission.acquire(41, held=60)
    with pytest.raises(Overloaded):
        admission.acquire(41)
    assert admission.inflight_bytes == 60

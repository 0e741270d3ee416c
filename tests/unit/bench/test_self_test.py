"""The generator against a server that does nothing, before it measures one that does something."""

from collections.abc import Callable

import pytest

from guepard.bench.self_test import self_test_rate
from guepard.measure.load.generator import Carried, LoadGenerator, Sink
from guepard.measure.load.plan import Endpoint, LoadPlan, Payload

PLAN = LoadPlan(
    endpoint=Endpoint(protocol="http", host="127.0.0.1", port=1),
    payloads=(Payload(data=b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),),
    duration_ns=1,
)


class Silent(LoadGenerator):
    """A generator that gets no answer at all."""

    def __init__(self, *, is_interrupted: bool) -> None:
        super().__init__(1)
        self._is_interrupted = is_interrupted

    def run(self, plan: LoadPlan, sink: Sink, tick: Callable[[], bool] = lambda: True) -> Carried:
        sink.begin(0)
        return Carried((), self._is_interrupted)


def test_an_interrupt_during_the_self_test_ends_the_measurement() -> None:
    with pytest.raises(KeyboardInterrupt):
        self_test_rate(Silent(is_interrupted=True), PLAN)


def test_a_self_test_without_an_answer_tells_no_rate() -> None:
    assert self_test_rate(Silent(is_interrupted=False), PLAN) is None

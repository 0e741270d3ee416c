"""Random callers of one model: each gets exactly one final answer, its own, and each is counted exactly once."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.core.errors import DeadlineExceeded, ModelError, QueueFull
from guepard.core.model_config import MILLISECOND, DynamicBatching
from guepard.core.reasons import FailureReason
from tests.unit.batching.arrivals import sender_of
from tests.unit.engine.fake_executors import fail_negative
from tests.unit.engine.stage import Stage

arrivals = st.tuples(
    st.just("send"),
    st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, -5.0]), min_size=1, max_size=9),
    st.sampled_from([5, 15, 1_000_000]),
)
steps = st.one_of(
    arrivals,
    arrivals,
    st.tuples(st.just("turn")),
    st.tuples(st.just("advance"), st.integers(1, 12)),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(steps, max_size=30),
    st.sampled_from([0, 10]),
    st.sampled_from([2, 4]),
    st.sampled_from([3, 100]),
    st.booleans(),
)
def test_one_final_answer_each(
    script: list[tuple[Any, ...]], delay_ms: int, max_batch_size: int, max_queue_size: int, idempotent: bool
) -> None:
    stage = Stage(
        fail_negative,
        execution="inline",
        max_batch_size=max_batch_size,
        idempotent=idempotent,
        dynamic_batching=DynamicBatching(delay_ms * MILLISECOND, max_queue_size=max_queue_size),
    )
    sent = []
    cancelled = set()
    for verb, *arguments in script:
        if verb == "send":
            values, timeout_ms = arguments
            sent.append((values, stage.send(*values, timeout_ns=timeout_ms * MILLISECOND)))
        elif verb == "turn":
            stage.clock.turn()
        elif verb == "advance":
            stage.clock.advance(arguments[0] * MILLISECOND)
        elif sent:
            _, request = sent[arguments[0] % len(sent)]
            if not sender_of(request).ends:
                stage.served.cancel(request)
                cancelled.add(request)
    stage.clock.advance(100 * MILLISECOND)

    fates = dict.fromkeys(FailureReason, 0)
    successes = 0
    for values, request in sent:
        sender = sender_of(request)
        if request in cancelled:
            assert sender.ends == 0
            fates[FailureReason.CANCELED] += 1
            continue
        assert sender.ends == 1
        if sender.error is None:
            assert sender.values == [2 * value for value in values]
            assert min(values) > 0
            successes += 1
        elif isinstance(sender.error, QueueFull):
            fates[FailureReason.REJECTED] += 1
        elif isinstance(sender.error, DeadlineExceeded):
            fates[FailureReason.TIMEOUT] += 1
        else:
            assert isinstance(sender.error, ModelError)
            assert min(values) < 0 or not idempotent
            fates[FailureReason.BACKEND] += 1
    assert stage.successes == successes
    assert stage.served.statistics.read().failures == fates
    assert stage.served.queue_depth == 0

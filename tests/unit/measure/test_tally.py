"""What a tally counts where, against counting request by request."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from guepard.measure.histogram import Histogram
from guepard.measure.load.outcomes import End, is_success
from guepard.measure.load.records import BLOCKED, FOUND_SHIFT, UNIQUE, Gaps, Records
from guepard.measure.sliced_histogram import MAX_SLICES
from guepard.measure.tally import Tally

START_NS = 7_000_000_000_123
MS = 1_000_000
SLICE_NS = 100 * MS


@dataclass
class Request:
    """Times in milliseconds since the start."""

    due: float
    done: float
    sent: float | None = None
    first: float | None = None
    outcome: int = 200
    received: int = 10
    pieces: int = 0
    payload: int = 0
    flags: int = 0

    def row(self) -> list[int]:
        sent = self.due if self.sent is None else self.sent
        first = self.done if self.first is None else self.first
        times = [START_NS + round(time * MS) for time in (self.due, sent, first, self.done)]
        return [*times, self.outcome, self.received, self.pieces, self.payload, self.flags]


def records(*requests: Request) -> Records:
    return Records.view(np.array([request.row() for request in requests], np.int64).tobytes())


def gaps(*pairs: tuple[float, float]) -> Gaps:
    rows = [(START_NS + round(at * MS), round(gap * MS)) for at, gap in pairs]
    return Gaps.view(np.array(rows, np.int64).tobytes())


def tally_of(*requests: Request) -> Tally:
    tally = Tally(START_NS)
    tally.add_records(records(*requests))
    return tally


def milliseconds(*values: float) -> Histogram:
    return Histogram.of(np.array([round(value * MS) for value in values], np.int64))


def test_latency_counts_where_a_request_was_due_and_its_end_where_it_ended() -> None:
    tally = tally_of(Request(due=950, sent=960, done=1_250, received=7))
    before, after = tally.window(0, 1), tally.window(1, 2)
    assert (before.offered, before.sent, before.succeeded, before.received_bytes) == (1, 1, 0, 0)
    assert (after.offered, after.sent, after.succeeded, after.received_bytes) == (0, 0, 1, 7)
    assert (before.latency, before.service, before.send_lag) == (
        milliseconds(300),
        milliseconds(290),
        milliseconds(10),
    )
    assert after.latency.count == after.service.count == after.send_lag.count == 0
    assert (before.in_flight, after.in_flight) == (1, 0)


def test_a_border_belongs_to_what_comes_after_it() -> None:
    tally = tally_of(Request(due=0, done=1_000))
    assert (tally.window(0, 1).offered, tally.window(0, 1).succeeded) == (1, 0)
    assert (tally.window(1, 2).offered, tally.window(1, 2).succeeded) == (0, 1)


def test_a_request_at_a_time_gives_as_many_as_fit() -> None:
    """perf_analyzer#393: 7 requests were reported in 10 s at 5 s each, because windows overlapped."""
    tally = tally_of(*(Request(due=5_000 * n, done=5_000 * (n + 1)) for n in range(4)))
    for start_s, end_s in ((0.1, 10.1), (5.1, 15.1)):
        window = tally.window(start_s, end_s)
        assert window.succeeded == 2
        rate = window.succeeded / window.duration_s
        assert rate * window.service.mean / 1e9 == pytest.approx(window.mean_in_flight) == pytest.approx(1.0)


def test_errors_never_look_like_speed() -> None:
    """Fast refusals and slow time-outs stay out of the latencies of successes, each among its own kind."""
    tally = tally_of(
        *(Request(due=n, done=n + 50) for n in range(7)),
        *(Request(due=n, done=n + 1, outcome=429) for n in range(3)),
        Request(due=10, done=5_010, outcome=End.TIMED_OUT),
    )
    window = tally.window(0, 1)
    assert window.latency == milliseconds(*[50] * 7)
    assert window.failure_latency == {End.TIMED_OUT: milliseconds(5_000), 429: milliseconds(1, 1, 1)}
    assert (window.succeeded, window.failed, window.failed_count) == (7, {429: 3}, 3)
    assert tally.window(5, 6).failed == {End.TIMED_OUT: 1}
    assert tally.failed == {End.TIMED_OUT: 1, 429: 3}


def test_streams_have_first_pieces_and_gaps() -> None:
    tally = tally_of(
        Request(due=0, first=30, done=250, pieces=3),
        Request(due=10, first=20, done=40, pieces=1, outcome=End.BROKEN_STREAM),
        Request(due=20, first=25, done=30),
    )
    tally.add_gaps(gaps((90, 60), (210, 120)))
    tally.add_gaps(Gaps.view(b""))
    window = tally.window(0, 0.1)
    assert window.first == milliseconds(30)
    assert window.between == milliseconds(60)
    assert (window.pieces, tally.window(0, 1).pieces) == (3, 4)
    assert tally.window(0.2, 0.3).between == milliseconds(120)


def test_the_send_lag_of_a_blocked_request_ends_when_it_was_found_to_be() -> None:
    found_ns = 3 * MS
    tally = tally_of(
        Request(due=0, sent=400, done=450, flags=BLOCKED | found_ns << FOUND_SHIFT),
        Request(due=10, sent=11, done=60),
    )
    window = tally.window(0, 1)
    assert (window.blocked, window.send_lag) == (1, milliseconds(1, 3))
    assert window.latency == milliseconds(450, 50)
    assert window.mean_in_flight == pytest.approx((50 + 49) / 1_000)


def test_a_request_that_never_got_a_connection_was_never_in_flight() -> None:
    tally = tally_of(Request(due=0, done=500, outcome=End.TIMED_OUT, flags=BLOCKED, payload=3))
    tally.add_records(records(Request(due=600, done=610, payload=3)))
    window = tally.window(0, 1)
    assert (window.offered, window.sent, window.blocked, window.repeated) == (2, 1, 1, 0)
    assert window.mean_in_flight == pytest.approx(0.01)
    assert tally.window(0, 0.3).in_flight == 0


def test_a_payload_repeats_if_it_had_been_sent_before() -> None:
    tally = tally_of(*(Request(due=n, done=n + 1, payload=payload) for n, payload in enumerate([0, 1, 0, 0, 5])))
    assert tally.window(0, 1).repeated == 2
    tally.add_records(
        records(
            Request(due=200, done=201, payload=5),
            Request(due=201, done=202, payload=9, flags=UNIQUE),
            Request(due=202, done=203, payload=9, flags=UNIQUE),
            Request(due=203, done=204, payload=9),
        )
    )
    window = tally.window(0.2, 0.3)
    assert (window.repeated, window.repeat_share) == (1, 0.25)


def test_the_number_in_flight_over_time() -> None:
    tally = tally_of(Request(due=50, done=350), Request(due=150, done=160), Request(due=399, done=401))
    assert [part.in_flight for part in tally.slices(0.1, 0, 0.5)] == [1, 1, 1, 1, 0]
    means = [tally.window(second / 10, (second + 1) / 10).mean_in_flight for second in range(5)]
    assert means == pytest.approx([0.5, 1.1, 1.0, 0.51, 0.01])


def some_requests(random: np.random.Generator, count: int, last_ms: int) -> list[Request]:
    due = np.sort(random.integers(0, last_ms, count))
    outcomes = random.choice([200, 204, 429, 503, int(End.TIMED_OUT), 1_000, 1_014], count)
    lag, service = random.integers(0, 3, count), random.integers(1, 900, count)
    return [
        Request(
            due=int(due[n]),
            sent=int(due[n] + lag[n]),
            first=int(due[n] + lag[n] + service[n] // 2),
            done=int(due[n] + lag[n] + service[n]),
            outcome=int(outcomes[n]),
            received=int(random.integers(0, 1_000)),
            pieces=int(random.integers(0, 4)),
        )
        for n in range(count)
    ]


def check_window(tally: Tally, requests: list[Request], start_s: float, end_s: float) -> None:
    """Each count against the requests one by one."""
    window = tally.window(start_s, end_s)
    start, end = window.start_s * 1_000, window.end_s * 1_000

    def inside(time: float | None) -> bool:
        assert time is not None
        return start <= time < end

    due = [request for request in requests if inside(request.due)]
    good = [request for request in due if is_success(request.outcome)]
    ended = [request for request in requests if inside(request.done)]
    assert window.offered == len(due)
    assert window.sent == sum(inside(request.sent) for request in requests)
    assert window.succeeded == sum(is_success(request.outcome) for request in ended)
    assert window.failed == Counter(request.outcome for request in ended if not is_success(request.outcome))
    assert window.received_bytes == sum(request.received for request in ended)
    assert window.latency == milliseconds(*(request.done - request.due for request in good))
    assert window.service == milliseconds(*(request.done - (request.sent or 0) for request in good))
    assert window.first == milliseconds(*((request.first or 0) - request.due for request in good if request.pieces))
    assert window.send_lag == milliseconds(*((request.sent or 0) - request.due for request in due))
    assert {outcome: part.count for outcome, part in window.failure_latency.items()} == Counter(
        request.outcome for request in due if not is_success(request.outcome)
    )
    assert window.pieces == sum(request.pieces > 0 and inside(request.first) for request in requests)
    overlap = sum(max(min(request.done, end) - max(request.sent or 0, start), 0) for request in requests)
    assert window.mean_in_flight == pytest.approx(overlap / (end - start))
    assert window.in_flight == sum((request.sent or 0) < end <= request.done for request in requests)


@pytest.mark.parametrize("last_ms", [5_000, 900_000])
def test_windows_of_a_run_in_any_order_from_several_processes(last_ms: int) -> None:
    """900 s do not fit into slices of 100 ms: they end up in slices of 800 ms."""
    random = np.random.default_rng(last_ms)
    requests = some_requests(random, 600, last_ms)
    tally = Tally(START_NS)
    order = random.permutation(len(requests)).tolist()
    for low, high in pairwise((0, 1, 250, 251, 600)):
        tally.add_records(records(*(requests[n] for n in order[low:high])))
    tally.add_records(Records.view(b""))
    assert tally.slice_s == (0.1 if last_ms == 5_000 else 0.8)
    assert last_ms / 1_000 - 10 < tally.end_s < last_ms / 1_000 + 2
    for start, end in ((0.0, 1.0), (0.2, 0.45), (0.5, 0.9)):
        check_window(tally, requests, start * last_ms / 1_000, end * last_ms / 1_000)


def test_the_time_line_adds_up_to_the_window() -> None:
    requests = some_requests(np.random.default_rng(1), 400, 4_000)
    tally = tally_of(*requests)
    window, parts = tally.window(0.5, 4.2), tally.slices(1, 0.5, 4.2)
    assert [(part.start_s, part.end_s) for part in parts] == [
        pytest.approx(pair) for pair in ((0.5, 1.5), (1.5, 2.5), (2.5, 3.5), (3.5, 4.2))
    ]
    assert Histogram.merged(part.latency for part in parts) == window.latency
    assert sum(part.offered for part in parts) == window.offered
    assert sum(part.succeeded for part in parts) == window.succeeded
    assert sum((Counter(part.failed) for part in parts), Counter()) == window.failed
    assert sum(part.failed_count for part in parts) == window.failed_count
    assert parts[-1].in_flight == window.in_flight


@pytest.mark.parametrize(("count", "blocks"), [(1, 1), (7, 7), (40, 37)])
def test_blocks_are_equal_stretches_of_the_window(count: int, blocks: int) -> None:
    tally = tally_of(*(Request(due=n, done=n + n % 97) for n in range(5_000)))
    found = tally.blocks(0.5, 4.2, count)
    assert len(found) == blocks
    assert Histogram.merged(found) == tally.window(0.5, 4.2).latency
    sizes = [block.count for block in found]
    assert max(sizes) - min(sizes) <= 100


def test_borders_move_to_the_nearest_slice_and_are_told() -> None:
    tally = tally_of(Request(due=0, done=1))
    window = tally.window(0.04, 0.31)
    assert (window.start_s, window.end_s) == pytest.approx((0.0, 0.3))
    tiny = tally.window(0.21, 0.22)
    assert (tiny.start_s, tiny.end_s) == pytest.approx((0.2, 0.3))


@pytest.mark.parametrize(("start_s", "end_s"), [(-1, 1), (1, 1), (2, 1)])
def test_windows_that_are_none(start_s: float, end_s: float) -> None:
    tally = Tally(START_NS)
    for ask in (tally.window, lambda start, end: tally.slices(1, start, end), lambda s, e: tally.blocks(s, e, 2)):
        with pytest.raises(ValueError, match="a window from"):
            ask(start_s, end_s)
    with pytest.raises(ValueError, match="0 blocks"):
        tally.blocks(0, 1, 0)


def test_a_run_without_requests() -> None:
    tally = Tally(START_NS)
    window = tally.window(0, 10)
    assert tally.end_s == 0
    assert (window.offered, window.latency, window.failed, window.mean_in_flight) == (0, Histogram(), {}, 0)
    assert window.repeat_share == 0
    assert [part.offered for part in tally.slices(5, 0, 10)] == [0, 0]
    assert tally.blocks(0, 10, 2) == [Histogram(), Histogram()]


@pytest.mark.parametrize(
    "broken",
    [
        Request(due=-1, done=5),
        Request(due=5, sent=4, done=6),
        Request(due=5, sent=6, first=5.5, done=7),
        Request(due=5, first=6, done=5.5),
    ],
)
def test_times_out_of_order_count_nothing(broken: Request) -> None:
    tally = Tally(START_NS)
    with pytest.raises(ValueError, match="do the clocks differ"):
        tally.add_records(records(Request(due=0, done=1), broken))
    assert tally.window(0, 1).offered == 0


@pytest.mark.parametrize("pair", [(-1.0, 0.0), (5.0, -1.0)])
def test_gaps_out_of_order_count_nothing(pair: tuple[float, float]) -> None:
    tally = Tally(START_NS)
    with pytest.raises(ValueError, match="do the clocks differ"):
        tally.add_gaps(gaps((5, 1), pair))
    assert tally.window(0, 1).pieces == 0


def test_a_long_run_keeps_as_many_slices_as_a_short_one() -> None:
    tally = Tally(START_NS)
    for hour in range(24):
        tally.add_records(records(Request(due=3_600_000 * hour, done=3_600_000 * hour + 250)))
        tally.add_gaps(gaps((3_600_000 * hour + 5, 1)))
    assert tally.end_s / tally.slice_s <= MAX_SLICES
    day = tally.window(0, tally.end_s)
    assert (day.offered, day.latency, day.between) == (24, milliseconds(*[250] * 24), milliseconds(*[1] * 24))
    assert day.mean_in_flight * day.duration_s == pytest.approx(24 * 0.25)

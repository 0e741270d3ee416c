"""Counts what load generators report, in slices of time, so that the window that is measured is chosen afterwards.

Where a request counts:

- what it was like to be a user (latency, service, first piece, send lag, blocked, repeated, offered) counts in the
  slice in which the request was *due*, so that a slice which stalls is charged with its own requests;
- what the server got done (successes, failures, received bytes) counts in the slice in which the request *ended*;
- sending counts when it began, a piece of a stream, and the gap before it, when it came.

So a request that is due in a window and ends after it adds to the window's latency and not to its throughput, one that
was due before and ends within the other way round, and no request counts twice in any of them. A border belongs to what
comes after it. Successes alone have latency, service and first piece: failures are kept apart, by outcome.

A run begins with slices of 100 ms. When more than MAX_SLICES would be needed, two and two are made one: after 204 s
slices are of 200 ms, and so on, so that memory is bounded however long a run takes. (An hour at 10,000 requests per
second ended with slices of 3.2 s and 300 MiB.) Times given in seconds are moved to the nearest border of a slice, and
what comes back says which.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from guepard.measure.histogram import Histogram, Integers
from guepard.measure.load.outcomes import are_successes
from guepard.measure.load.records import UNIQUE, Gaps, Records
from guepard.measure.sliced_histogram import MAX_SLICES, SlicedHistogram
from guepard.measure.totals import SliceTotals, WindowTotals

BASE_SLICE_NS = 100_000_000
_SECOND_NS = 1_000_000_000

# _LEFT: ends of requests that were sent. _UNDER_WAY_NS: for how long requests were under way in the slice, less what it
# would be if those under way at its beginning stayed to its end and no others came.
_OFFERED, _SENT, _BLOCKED, _REPEATED, _SUCCEEDED, _RECEIVED, _PIECES, _LEFT, _UNDER_WAY_NS = range(9)
_ROWS = 9


class Tally:
    """What happened so far. Fed in any order, by any number of processes; read at any time. Belongs to one thread.

    Requests under way are unknown here until they end. While a run goes on, the newest slices therefore count too few
    of everything that counts when a request is due or sent.

    Cost: 0.2 to 0.3 µs per request in batches of a thousand or more, some 0.1 ms per smaller batch; a window of a
        minute takes about 20 ms.
    """

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._slice_ns = BASE_SLICE_NS
        self._slice_count = 0
        self._counts = np.zeros((_ROWS, MAX_SLICES), np.int64)
        self._failed: dict[int, Integers] = {}
        self._latency = SlicedHistogram()
        self._service = SlicedHistogram()
        self._first = SlicedHistogram()
        self._between = SlicedHistogram()
        self._send_lag = SlicedHistogram()
        self._failure_latency: dict[int, SlicedHistogram] = {}
        self._seen = np.zeros(0, np.bool_)

    @property
    def slice_s(self) -> float:
        """The length of a slice, to which all borders are moved."""
        return self._slice_ns / _SECOND_NS

    @property
    def end_s(self) -> float:
        """The end of the last slice in which anything happened."""
        return self._slice_count * self.slice_s

    @property
    def failed(self) -> dict[int, int]:
        """All failures so far, by outcome. Cost: microseconds, where a window of everything takes milliseconds."""
        return self._failed_between(0, MAX_SLICES)

    def add_records(self, records: Records) -> None:
        """Count requests that ended.

        Raises: ValueError for a request that was due before the start, or whose times are out of order; nothing of the
            batch was counted.
        """
        if not len(records):
            return
        due, sent, done = (
            column - self._start_ns for column in (records.intended_ns, records.sent_ns, records.done_ns)
        )
        first = records.first_ns - self._start_ns
        if due.min() < 0 or (sent < due).any() or (first < sent).any() or (done < first).any():
            raise ValueError("requests due before the start, or with times out of order: do the clocks differ?")
        self._reach(int(done.max()))
        due_slice, done_slice = due // self._slice_ns, done // self._slice_ns
        counts = self._counts
        succeeded = are_successes(records.outcome)
        is_blocked = records.is_blocked
        # A blocked request that was not sent later than due was never sent: it ended before it had a connection.
        was_sent = ~is_blocked | (sent > due)

        np.add.at(counts[_OFFERED], due_slice, 1)
        np.add.at(counts[_BLOCKED], due_slice[is_blocked], 1)
        np.add.at(counts[_REPEATED], due_slice[self._repeated(records, was_sent)], 1)
        np.add.at(counts[_SUCCEEDED], done_slice[succeeded], 1)
        np.add.at(counts[_RECEIVED], done_slice, records.received_bytes)
        self._add_under_way(sent[was_sent], done[was_sent])

        latency = done - due
        self._send_lag.record(due_slice, records.lag_ns)
        self._latency.record(due_slice[succeeded], latency[succeeded])
        self._service.record(due_slice[succeeded], (done - sent)[succeeded])
        has_pieces = records.pieces > 0
        if has_pieces.any():
            np.add.at(counts[_PIECES], first[has_pieces] // self._slice_ns, 1)
            streams = succeeded & has_pieces
            self._first.record(due_slice[streams], (first - due)[streams])
        if not succeeded.all():
            failed = ~succeeded
            self._add_failures(records.outcome[failed], due_slice[failed], done_slice[failed], latency[failed])

    def add_gaps(self, gaps: Gaps) -> None:
        """Count times between pieces. Raises: ValueError for one that came before the start, or took less than none."""
        if not gaps.at_ns.size:
            return
        at = gaps.at_ns - self._start_ns
        if at.min() < 0 or gaps.gap_ns.min() < 0:
            raise ValueError("pieces before the start, or before the piece before them: do the clocks differ?")
        self._reach(int(at.max()))
        at_slice = at // self._slice_ns
        np.add.at(self._counts[_PIECES], at_slice, 1)
        self._between.record(at_slice, gaps.gap_ns)

    def window(self, start_s: float, end_s: float) -> WindowTotals:
        """Everything between two times.

        Raises: ValueError unless the start is 0 or later, and the end later than that. `slices` and `blocks` as well.
        """
        first, end = self._borders(start_s, end_s)
        sums = self._counts[:, first:end].sum(axis=1).tolist()
        at_start = self._in_flight_before(first, end)
        under_way_ns = int(at_start.sum()) * self._slice_ns + sums[_UNDER_WAY_NS]
        failure_latency = {outcome: part.merged(first, end) for outcome, part in self._failure_latency.items()}
        return WindowTotals(
            start_s=first * self.slice_s,
            end_s=end * self.slice_s,
            offered=sums[_OFFERED],
            sent=sums[_SENT],
            blocked=sums[_BLOCKED],
            repeated=sums[_REPEATED],
            succeeded=sums[_SUCCEEDED],
            failed=self._failed_between(first, end),
            received_bytes=sums[_RECEIVED],
            pieces=sums[_PIECES],
            latency=self._latency.merged(first, end),
            service=self._service.merged(first, end),
            first=self._first.merged(first, end),
            between=self._between.merged(first, end),
            failure_latency={outcome: part for outcome, part in sorted(failure_latency.items()) if part.count},
            send_lag=self._send_lag.merged(first, end),
            mean_in_flight=under_way_ns / ((end - first) * self._slice_ns),
            in_flight=self._in_flight_at(end),
        )

    def slices(self, width_s: float, start_s: float, end_s: float) -> list[SliceTotals]:
        """The time line between two times in steps of about `width_s`; the last one may be shorter."""
        first, end = self._borders(start_s, end_s)
        width = max(round(width_s / self.slice_s), 1)
        return [self._slice(low, min(low + width, end)) for low in range(first, end, width)]

    def blocks(self, start_s: float, end_s: float, count: int) -> list[Histogram]:
        """Latencies of successes in `count` blocks of time, equal up to one slice; fewer if there are fewer slices."""
        if count < 1:
            raise ValueError(f"{count} blocks: there has to be one at least")
        first, end = self._borders(start_s, end_s)
        count = min(count, end - first)
        borders = [first + (end - first) * block // count for block in range(count + 1)]
        return [self._latency.merged(low, high) for low, high in pairwise(borders)]

    def _slice(self, first: int, end: int) -> SliceTotals:
        return SliceTotals(
            start_s=first * self.slice_s,
            end_s=end * self.slice_s,
            offered=int(self._counts[_OFFERED, first:end].sum()),
            succeeded=int(self._counts[_SUCCEEDED, first:end].sum()),
            failed=self._failed_between(first, end),
            latency=self._latency.merged(first, end),
            in_flight=self._in_flight_at(end),
        )

    def _borders(self, start_s: float, end_s: float) -> tuple[int, int]:
        """The first slice of a window and the one after its last; a window has at least one."""
        if not 0 <= start_s < end_s:
            raise ValueError(f"a window from {start_s} s to {end_s} s: it starts at 0 or later and ends after that")
        first = round(start_s / self.slice_s)
        return first, max(round(end_s / self.slice_s), first + 1)

    def _reach(self, last_ns: int) -> None:
        """Have a slice for that time, with wider slices if they would be too many."""
        while last_ns // self._slice_ns >= MAX_SLICES:
            self._halve()
        self._slice_count = max(self._slice_count, last_ns // self._slice_ns + 1)

    def _halve(self) -> None:
        even, odd = self._counts[:, ::2], self._counts[:, 1::2]
        halved = even + odd
        # What began in the even slice is under way for all of the odd one, which is now part of the same slice.
        halved[_UNDER_WAY_NS] += (even[_SENT] - even[_LEFT]) * self._slice_ns
        self._counts = np.hstack((halved, np.zeros_like(halved)))
        for outcome, counts in self._failed.items():
            both = counts[::2] + counts[1::2]
            self._failed[outcome] = np.concatenate((both, np.zeros_like(both)))
        for part in (self._latency, self._service, self._first, self._between, self._send_lag):
            part.halve()
        for part in self._failure_latency.values():
            part.halve()
        self._slice_ns *= 2
        self._slice_count = (self._slice_count + 1) // 2

    def _repeated(self, records: Records, was_sent: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which requests' payloads had been sent before, in the order in which batches come."""
        payload = records.payload
        size = int(payload.max()) + 1
        if size > len(self._seen):
            self._seen = np.concatenate((self._seen, np.zeros(size - len(self._seen), np.bool_)))
        can_repeat: NDArray[np.bool_] = was_sent & ((records.flags & UNIQUE) == 0)
        repeated: NDArray[np.bool_] = can_repeat & self._seen[payload]
        fresh = np.flatnonzero(can_repeat & ~repeated)
        if fresh.size:
            _, firsts = np.unique(payload[fresh], return_index=True)
            repeated[fresh] = True
            repeated[fresh[firsts]] = False
            self._seen[payload[fresh]] = True
        return repeated

    def _add_under_way(self, sent: Integers, done: Integers) -> None:
        counts, slice_ns = self._counts, self._slice_ns
        sent_slice, done_slice = sent // slice_ns, done // slice_ns
        np.add.at(counts[_SENT], sent_slice, 1)
        np.add.at(counts[_LEFT], done_slice, 1)
        np.add.at(counts[_UNDER_WAY_NS], sent_slice, (sent_slice + 1) * slice_ns - sent)
        np.subtract.at(counts[_UNDER_WAY_NS], done_slice, (done_slice + 1) * slice_ns - done)

    def _add_failures(self, outcomes: Integers, due_slice: Integers, done_slice: Integers, latency: Integers) -> None:
        for outcome in np.unique(outcomes).tolist():
            if outcome not in self._failed:
                self._failed[outcome] = np.zeros(MAX_SLICES, np.int64)
                self._failure_latency[outcome] = SlicedHistogram()
            with_it = outcomes == outcome
            np.add.at(self._failed[outcome], done_slice[with_it], 1)
            self._failure_latency[outcome].record(due_slice[with_it], latency[with_it])

    def _failed_between(self, first: int, end: int) -> dict[int, int]:
        sums = {outcome: int(counts[first:end].sum()) for outcome, counts in sorted(self._failed.items())}
        return {outcome: count for outcome, count in sums.items() if count}

    def _in_flight_at(self, end: int) -> int:
        return int((self._counts[_SENT, :end] - self._counts[_LEFT, :end]).sum())

    def _in_flight_before(self, first: int, end: int) -> Integers:
        """The number in flight at the beginning of each slice."""
        changes = self._counts[_SENT, :end] - self._counts[_LEFT, :end]
        return np.concatenate((np.zeros(1, np.int64), changes.cumsum()))[first:end]

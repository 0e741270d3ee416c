"""Decides when each request begins, and lets slots carry them: the one loop of a generator process.

An open loop begins requests when they are due, whatever became of earlier ones. Where every allowed connection is busy
they wait here, and their latency goes on counting from the intended time. A closed loop begins the next request when
the last one has ended.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator

from guepard.measure.load.arrivals import send_times
from guepard.measure.load.client import Client, Slot
from guepard.measure.load.corpus import payloads_of
from guepard.measure.load.journal import Journal
from guepard.measure.load.outcomes import End
from guepard.measure.load.plan import LoadPlan
from guepard.measure.load.poller import Poller
from guepard.measure.load.records import BLOCKED, FOUND_SHIFT

_KEEP_HOUSE_NS = 10_000_000
_BEGUN_PER_TURN = 64
"""More at once, after the process was kept waiting, would leave answers unread for too long."""
_FIRST_PAUSE_NS = 10_000_000
_LONGEST_PAUSE_NS = 1_000_000_000
_WITHOUT_ANSWER = frozenset((End.REFUSED, End.UNREACHABLE, End.TLS_FAILED, End.RESET, End.CLOSED_EARLY, End.MALFORMED))
_NEVER = 1 << 62


class Driver:
    """One process's share of a plan. `flush` is called every 10 ms, to take away what the journal holds."""

    def __init__(
        self, plan: LoadPlan, *, share: int, shares: int, journal: Journal, poller: Poller, flush: Callable[[], None]
    ) -> None:
        self.poller = poller
        self.journal = journal
        self.under_way = 0
        self._plan = plan
        self._share = share
        self._shares = shares
        self._flush = flush
        self._calls: list[Callable[[], None]] = []
        self._slots: list[Slot] = []
        self._idle: list[Slot] = []
        self._waiting: deque[tuple[int, int]] = deque()
        """Intended time and flags of requests without a connection, in the order in which they were due."""
        self._most_slots = _part(plan.max_connections, share, shares)
        self._chosen = payloads_of(
            plan.payloads, plan.order, first=plan.first_number, share=share, shares=shares, seed=plan.seed
        )
        self._is_open = plan.arrivals is not None
        self._is_sending = True
        self._closed_left = _part(plan.requests, share, shares) if plan.requests else _NEVER
        self._pausing: list[tuple[int, Slot]] = []
        self._pauses: dict[Slot, int] = {}

    def run(self, client: Client, start_ns: int) -> None:
        """Send what the plan says from `start_ns` on, and return when everything has ended. Flushes at the end."""
        self._client = client
        self._end_ns = start_ns + self._plan.duration_ns
        due = self._due_times(start_ns) if self._is_open else iter(())
        next_ns = next(due, _NEVER)
        if not self._is_open:
            self._wait_for_start(start_ns)
            self._open_closed_loop()
        house_ns = 0
        timeout_ns = self._plan.timeout_ns
        keep_house_ns = max(1_000_000, min(_KEEP_HOUSE_NS, timeout_ns // 20))
        poller, clock = self.poller, time.monotonic_ns
        turn_ns = clock()
        while True:
            now = clock()
            if self._is_open:
                for _ in range(_BEGUN_PER_TURN):
                    if next_ns > now or not self._is_sending:
                        break
                    self._begin(next_ns)
                    next_ns = next(due, _NEVER)
                if next_ns == _NEVER:
                    self._is_sending = False
            elif now >= self._end_ns:
                self._is_sending = False
            if now >= house_ns:
                self._keep_house(now, timeout_ns)
                house_ns = now + keep_house_ns
                if not self._is_sending and not self.under_way and not self._waiting:
                    break
            while self._calls:
                calls, self._calls = self._calls, []
                for call in calls:
                    call()
            now = clock()
            self.journal.turns.append(now - turn_ns)
            until_ns = min(house_ns, next_ns) if self._is_sending else house_ns
            found = poller.ready((until_ns - now) / 1e9)
            turn_ns = clock()
            poller.handle(found)
        self._flush()

    def stop(self) -> None:
        """Send nothing more; what is under way may end."""
        self._is_sending = False
        self._waiting.clear()

    def later(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def released(self, slot: Slot, outcome: int) -> None:
        self.under_way -= 1
        if self._is_open:
            if self._waiting:
                self._send(slot, *self._waiting.popleft())
            else:
                self._idle.append(slot)
        elif outcome in _WITHOUT_ANSWER:
            self._pause(slot)
        else:
            if self._pauses:
                self._pauses.pop(slot, None)
            self._send_next(slot)

    def _due_times(self, start_ns: int) -> Iterator[int]:
        plan = self._plan
        assert plan.arrivals is not None
        first = 0
        for times in send_times(
            plan.arrivals, duration_ns=plan.duration_ns, requests=plan.requests, seed=plan.seed + plan.first_number
        ):
            offset = (self._share - first) % self._shares
            yield from (times[offset :: self._shares] + start_ns).tolist()
            first += len(times)

    def _begin(self, intended_ns: int) -> None:
        if self._idle:
            self._send(self._idle.pop(), intended_ns, 0)
        elif len(self._slots) < self._most_slots:
            slot = self._client.open_slot()
            self._slots.append(slot)
            self._send(slot, intended_ns, 0)
        else:
            late_ns = time.monotonic_ns() - intended_ns
            self._waiting.append((intended_ns, BLOCKED | late_ns << FOUND_SHIFT))

    def _send(self, slot: Slot, intended_ns: int, flags: int) -> None:
        index, data, payload_flags = next(self._chosen)
        self.under_way += 1
        slot.send(data, index, intended_ns, flags | payload_flags)

    def _wait_for_start(self, start_ns: int) -> None:
        while (left_ns := start_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)

    def _open_closed_loop(self) -> None:
        for _ in range(_part(self._plan.concurrency, self._share, self._shares)):
            slot = self._client.open_slot()
            self._slots.append(slot)
            self._send_next(slot)

    def _send_next(self, slot: Slot) -> None:
        now = time.monotonic_ns()
        if self._is_sending and self._closed_left and now < self._end_ns:
            self._closed_left -= 1
            self._send(slot, now, 0)

    def _pause(self, slot: Slot) -> None:
        """A closed loop against a server that refuses would count a hundred thousand errors a second."""
        pause_ns = min(self._pauses.get(slot, _FIRST_PAUSE_NS // 2) * 2, _LONGEST_PAUSE_NS)
        self._pauses[slot] = pause_ns
        self._pausing.append((time.monotonic_ns() + pause_ns, slot))

    def _keep_house(self, now: int, timeout_ns: int) -> None:
        oldest_ns = now - timeout_ns
        # Those that wait come first, or an abandoned slot would take one whose time is over as well.
        while self._waiting and self._waiting[0][0] <= oldest_ns:
            self._give_up(*self._waiting.popleft(), now)
        for slot in self._slots:
            if 0 < slot.intended_ns <= oldest_ns:
                slot.abandon(End.TIMED_OUT)
        if self._pausing:
            due = [slot for at_ns, slot in self._pausing if at_ns <= now]
            self._pausing = [entry for entry in self._pausing if entry[0] > now]
            for slot in due:
                self._send_next(slot)
        if not self._is_open and (not self._closed_left or now >= self._end_ns):
            self._is_sending = False
        self._flush()

    def _give_up(self, intended_ns: int, flags: int, now: int) -> None:
        """A request that was never sent, because none of the connections became free in time."""
        index, _, payload_flags = next(self._chosen)
        self.journal.rows.extend(
            (intended_ns, intended_ns, now, now, End.TIMED_OUT, 0, 0, index, flags | payload_flags)
        )


def _part(whole: int, share: int, shares: int) -> int:
    """One share of a number of things that cannot be cut."""
    return whole // shares + (share < whole % shares)

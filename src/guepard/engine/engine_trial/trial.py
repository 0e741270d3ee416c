"""Engines tried in a process of their own, within a time.

An engine that hangs, crashes, raises or takes all memory there loses nothing but its candidacy. The process is then
started again for those that have not been tried yet, if there is time.
"""

import logging
import os
import select
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from signal import Signals
from time import monotonic_ns
from typing import NamedTuple

import msgspec

from guepard.core.model_config import SECOND
from guepard.engine.engine_trial.decision import Candidate
from guepard.engine.engine_trial.messages import (
    DECODER,
    Answers,
    Begins,
    Done,
    Message,
    Noted,
    Refused,
    TrialOrder,
    Tried,
)
from guepard.engine.processes.interpreter import start_interpreter
from guepard.engine.processes.process_state import ProcessState

log = logging.getLogger(__name__)

_WORKER = "guepard.engine.engine_trial.worker"
_SHARE = 0.6  # of the time that is left, for one candidate to load when others wait
_REFERENCE_SHARE = 0.6  # likewise, for the reference engine to load and answer all samples
_LEAST_NS = 1_500_000_000  # it is of no use to start a process for less
_LOOK_MS = 100
_END_S = 2.0
_MOST_BYTES = 1 << 20  # of a message: who writes more is out of its mind


class TrialFailed(Exception):
    """Nothing can be said of any engine. The text completes "it was not measured: ..."."""


class Outcome(NamedTuple):
    """What became of each candidate that was begun. `is_complete`: there are no others."""

    candidates: list[Candidate]
    is_complete: bool


def try_engines(order: TrialOrder, memory_limit_bytes: int) -> Outcome:
    """Blocks until `order.deadline_ns` at most.

    `memory_limit_bytes`: how large the process may grow; 0: as it likes.
    Raises: TrialFailed when nothing can be said of any candidate.
    """
    found: list[Candidate] = []
    while True:
        tried = frozenset((candidate.engine, candidate.precision) for candidate in found)
        trial = _Trial(replace(order, tried=order.tried | tried), memory_limit_bytes)
        try:
            with trial.running():
                is_done = trial.follow(found)
        except TrialFailed:
            if not found:
                raise
            return Outcome(found, is_complete=False)
        if is_done or order.deadline_ns - monotonic_ns() < _LEAST_NS:
            return Outcome(found, is_done)


class _Trial:
    """One process that works through an order."""

    def __init__(self, order: TrialOrder, memory_limit_bytes: int) -> None:
        self._order = order
        self._memory_limit_bytes = memory_limit_bytes
        self._deadline_ns = order.deadline_ns
        self._begun: Begins | None = None
        self._since = monotonic_ns()
        self._rest = b""
        self._ran_out_of_time = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """The process runs within, and is gone afterwards. Raises: TrialFailed when none can be had."""
        self._reading, writing = os.pipe()
        try:
            try:
                self._process = start_interpreter(
                    _WORKER,
                    [writing],
                    [writing],
                    self._order.source.threads,
                    stdin=subprocess.PIPE,
                    output=subprocess.DEVNULL,
                )
            except (OSError, RuntimeError) as error:
                raise TrialFailed(f"no process could be started for it: {error}") from None
            finally:
                os.close(writing)
            try:
                self._give_order()
                yield
            finally:
                self._process.kill()
                with suppress(OSError):
                    if self._process.stdin is not None:
                        self._process.stdin.close()
                self._process.wait()
        finally:
            os.close(self._reading)

    def _give_order(self) -> None:
        """On a thread: what ends while it reads must not hold us up."""
        data = self._order.pack()
        stream = self._process.stdin
        assert stream is not None

        def give() -> None:
            with suppress(OSError, ValueError):
                stream.write(len(data).to_bytes(8, "little") + data)
                stream.flush()

        threading.Thread(target=give, name="trial-order", daemon=True).start()

    def follow(self, found: list[Candidate]) -> bool:
        """Add to `found` what becomes known. False when the process was lost and others may be tried in a new one.

        Raises: TrialFailed.
        """
        for message in self._messages():
            match message:
                case Begins():
                    self._begin(message)
                case Answers():
                    self._deadline_ns = self._order.deadline_ns
                case Tried(candidate):
                    found.append(candidate)
                    self._begun = None
                case Noted(text):
                    log.info("model %s: on trial: %s", self._order.source.name, text)
                case Refused(reason):
                    raise TrialFailed(reason)
                case Done():
                    return True
        begun = self._begun
        if begun is None or begun.engine == self._order.reference:
            raise TrialFailed(f"the process in which engines are tried {self._fate}")
        rejected = f"its trial {self._fate}"
        found.append(
            Candidate(engine=begun.engine, precision=begun.precision, rejected=rejected, is_cut=self._ran_out_of_time)
        )
        log.warning("model %s: the trial of %s %s", self._order.source.name, found[-1].name, self._fate)
        return begun.is_last

    def _begin(self, begun: Begins) -> None:
        self._begun = begun
        self._since = monotonic_ns()
        left = self._order.deadline_ns - self._since
        share = _REFERENCE_SHARE if begun.engine == self._order.reference else _SHARE
        self._deadline_ns = self._order.deadline_ns if begun.is_last else self._since + int(left * share)

    def _messages(self) -> Iterator[Message]:
        """Until the process ends or is to be ended; `_fate` then says why."""
        state = ProcessState(self._process.pid)
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while True:
            now = monotonic_ns()
            if now >= self._deadline_ns:
                self._fate = f"did not end within {(now - self._since) / SECOND:.1f} s"
                self._ran_out_of_time = True
                return
            limit = self._memory_limit_bytes
            if limit and state.private_bytes() > limit:
                self._fate = f"took more memory than the {limit >> 20} MiB that it may have"
                return
            if not poll.poll(min(_LOOK_MS, (self._deadline_ns - now) // 1_000_000 + 1)):
                continue
            data = os.read(self._reading, 1 << 16)
            if not data:
                self._fate = self._end()
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            try:
                yield from map(DECODER.decode, lines)
            except msgspec.DecodeError:
                self._rest = b" " * (_MOST_BYTES + 1)
            if len(self._rest) > _MOST_BYTES:
                self._fate = "wrote over its pipe"
                return

    def _end(self) -> str:
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code >= 0:
            return f"ended with code {code}"
        with suppress(ValueError):
            return f"was killed by {Signals(-code).name}"
        return f"was killed by signal {-code}"

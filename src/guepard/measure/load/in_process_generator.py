"""Load on a function of this process: the worker is a thread, and everything else is as with processes."""

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType

from guepard.measure.load.client import Client, SlotOwner
from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.in_process_client import InProcessClient, Submit
from guepard.measure.load.plan import LoadPlan
from guepard.measure.load.worker import Worker


class InProcessGenerator(LoadGenerator):
    """Calls `submit` for every request. The worker and the model share an interpreter, so what the worker takes, the
    model does not have: its CPU time per request is in the report."""

    def __init__(self, submit: Submit) -> None:
        super().__init__(processes=1)
        self._submit = submit

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._thread.join()

    def _start(self, control: socket.socket) -> None:
        self._thread = threading.Thread(target=self._work, args=(control.dup(),), name="load", daemon=True)
        self._thread.start()

    def _work(self, control: socket.socket) -> None:
        with control, suppress(EOFError, ConnectionError):
            Worker(control, self._make_client, time.thread_time_ns).run()

    def _make_client(self, plan: LoadPlan, owner: SlotOwner) -> Client:
        return InProcessClient(self._submit, owner)

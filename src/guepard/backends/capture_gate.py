"""While one thread captures a CUDA graph, no other may ask anything of CUDA: the capture fails, and so does the other.

Source: CUDA, cudaStreamCaptureModeGlobal, which ONNX Runtime captures in.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CaptureGate:
    """Executions share it, a capture has it alone. A capture that waits goes before executions that come later."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._running = 0
        self._captures = 0  # that run or wait
        self._is_capturing = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        condition = self._condition
        with condition:
            while self._captures:
                condition.wait()
            self._running += 1
        try:
            yield
        finally:
            with condition:
                self._running -= 1
                if self._captures and not self._running:
                    condition.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        condition = self._condition
        with condition:
            self._captures += 1
            while self._running or self._is_capturing:
                condition.wait()
            self._is_capturing = True
        try:
            yield
        finally:
            with condition:
                self._is_capturing = False
                self._captures -= 1
                condition.notify_all()


GATE = CaptureGate()
"""Of all executions on GPUs of this process."""

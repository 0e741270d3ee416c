"""The process in which engines are tried. Whatever one of them does to it, the server goes on."""

import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import BinaryIO, cast

from guepard.backends.base import Backend, LoadedModel
from guepard.core.engine_options import Precision
from guepard.engine.engine_trial.comparison import Comparison
from guepard.engine.engine_trial.messages import ENCODER, Message, Noted, TrialOrder

_PR_SET_PDEATHSIG = 1
_MOST_OF_A_NOTE = 1_000
_OOM_SCORE = "800"  # when memory runs out, this process goes before the server and its instances


def main(arguments: Sequence[str]) -> None:
    """`arguments`: the descriptor that messages go to. The order comes by stdin, whose end is that of the server."""
    descriptor = int(arguments[0])
    _settle_in(descriptor)
    order = TrialOrder.unpack(_read_order(sys.stdin.buffer))
    threading.Thread(target=_end_with_the_server, name="server", daemon=True).start()

    def tell(message: Message) -> None:
        os.write(descriptor, ENCODER.encode(message) + b"\n")

    def backend(engine: str) -> Backend:
        module, attribute = order.homes[engine]
        return cast(Backend, getattr(import_module(module), attribute)())

    def load(engine: str, precision: Precision | None) -> LoadedModel:
        source = replace(order.source, precision=precision or order.source.precision, again=True)
        return backend(engine).load(source)

    def precisions(engine: str) -> Sequence[Precision]:
        """A backend that says nothing has full precision."""
        native = getattr(backend(engine), "native_precisions", None)
        return ("f32",) if native is None else cast(Sequence[Precision], native())

    logging.basicConfig(level=logging.WARNING, handlers=[_Notes(tell)])
    Comparison(order, load, precisions, tell).run()
    os._exit(0)  # nothing is to be kept, and engines take their time to go


class _Notes(logging.Handler):
    """Has the server write what engines log, which is no error of its own."""

    def __init__(self, tell: Callable[[Message], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            self._tell(Noted(record.getMessage()[:_MOST_OF_A_NOTE]))


def _settle_in(descriptor: int) -> None:
    with suppress(OSError, AttributeError):  # Source: prctl(2)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.set_inheritable(descriptor, False)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)


def _read_order(stream: BinaryIO) -> bytes:
    return stream.read(int.from_bytes(stream.read(8), "little"))


def _end_with_the_server() -> None:
    with suppress(OSError):
        os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Models that do to their own process what happens to processes in the field, where a request asks for it.

The parameter `do` of a request names the fault. Warm-up asks for none.
"""

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import guepard

Arrays = dict[str, NDArray[Any]]

FOR_EVER_S = 600.0
MIB = 2**20

_kept: list[Any] = []


class Faulty(guepard.Model):
    """Doubles `x` and says in which process, or does what it is asked to."""

    inputs = (guepard.Tensor("x", "INT32", [1]),)
    outputs = (guepard.Tensor("y", "INT32", [1]), guepard.Tensor("pid", "INT64", [1]))
    max_batch_size = 8

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        x = inputs["x"]
        for request in ctx.requests:
            if "do" in request.parameters:
                FAULTS[str(request.parameters["do"])](dict(request.parameters))
        return {"y": x * 2, "pid": np.full(x.shape, os.getpid())}


class Retried(Faulty):
    idempotent = True


def kill(parameters: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_once(parameters: dict[str, Any]) -> None:
    """Where the file `mark` is; it is removed."""
    mark = Path(parameters["mark"])
    if mark.exists():
        mark.unlink()
        kill(parameters)


def segfault(parameters: dict[str, Any]) -> None:
    ctypes.string_at(0)


def leave(parameters: dict[str, Any]) -> None:
    os._exit(7)


def stop(parameters: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def sleep(parameters: dict[str, Any]) -> None:
    time.sleep(float(parameters.get("seconds", FOR_EVER_S)))


def hold(parameters: dict[str, Any]) -> None:
    """In C code that does not let go of the interpreter."""
    ctypes.PyDLL(None).sleep(int(FOR_EVER_S))


def chatter(parameters: dict[str, Any]) -> None:
    """Hangs, and writes to the log all the while."""
    import logging

    while True:
        logging.getLogger("chatter").warning("still here")
        time.sleep(0.001)


def grow(parameters: dict[str, Any]) -> None:
    _kept.append(np.ones(int(parameters["mib"]) * MIB, np.uint8))


def grow_and_stay(parameters: dict[str, Any]) -> None:
    grow(parameters)
    time.sleep(FOR_EVER_S)


def write_over_sockets(parameters: dict[str, Any]) -> None:
    """`what` as hexadecimal into each socket of the process, or into that of the number `socket`."""
    sockets = _sockets()
    chosen = sockets if "socket" not in parameters else [sockets[int(parameters["socket"])]]
    for descriptor in chosen:
        os.write(descriptor, bytes.fromhex(parameters["what"]))


def close_everything(parameters: dict[str, Any]) -> None:
    os.closerange(3, 1_024)


def end_control(parameters: dict[str, Any]) -> None:
    """The conversation beside the batches; the process goes on."""
    socket.socket(fileno=os.dup(_sockets()[1])).shutdown(socket.SHUT_RDWR)


def fork(parameters: dict[str, Any]) -> None:
    """A child that outlives the batch, and has all that its parent has open."""
    if not os.fork():
        time.sleep(FOR_EVER_S)
        os._exit(0)


def fork_and_die(parameters: dict[str, Any]) -> None:
    fork(parameters)
    kill(parameters)


def fork_and_return(parameters: dict[str, Any]) -> None:
    """The child goes on as if it were the instance."""
    os.fork()


FAULTS: dict[str, Callable[[dict[str, Any]], None]] = {
    function.__name__: function
    for function in (
        kill,
        kill_once,
        segfault,
        leave,
        stop,
        sleep,
        hold,
        chatter,
        grow,
        grow_and_stay,
        write_over_sockets,
        close_everything,
        end_control,
        fork,
        fork_and_die,
        fork_and_return,
    )
}


def _sockets() -> list[int]:
    """That for batches and that for everything else."""
    found = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                found.append(int(name))
        except OSError:
            continue
    assert len(found) == 2
    assert all(socket.socket(fileno=os.dup(each)).family == socket.AF_UNIX for each in found)
    return found


class LargeAnswer(guepard.Model):
    """Kills its process while a thread of it writes 200 MB of text that no shared memory carries."""

    inputs = Faulty.inputs
    outputs = (guepard.Tensor("y", "BYTES", [-1]),)
    max_batch_size = 0

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        size = int(inputs["x"][0])
        return {"y": np.array([b"a" * size], object)}


class ExitsInLoad(Faulty):
    def load(self, ctx: guepard.ModelContext) -> None:
        os._exit(3)


class SegfaultsInLoad(Faulty):
    def load(self, ctx: guepard.ModelContext) -> None:
        ctypes.string_at(0)


class TooLarge(Faulty):
    def load(self, ctx: guepard.ModelContext) -> None:
        grow({"mib": 200})


class RunsPrograms(Faulty):
    """Has a program of its own running from `load` on, and forgets to end it."""

    def load(self, ctx: guepard.ModelContext) -> None:
        import subprocess

        self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
        ctx.logger.info("runs a program", extra={"child": self.child.pid})

"""Models that do to their own process what happens to processes in the field, where a request asks for it.

The parameter `do` of a request names the fault. Warm-up asks for none.
"""

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import guepard
from guepard.core.datatypes import DATATYPES

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
    """A child that does not listen."""
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(FOR_EVER_S)
        os._exit(0)
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
    """Answers with 64 MB, and may be killed `kill_after` seconds after it has begun to hand them over."""

    inputs = Faulty.inputs
    outputs = (guepard.Tensor("y", "UINT8", [-1]),)
    max_batch_size = 0

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        for request in ctx.requests:
            if "kill_after" in request.parameters:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, float(request.parameters["kill_after"]))
        return {"y": np.zeros((64 * MIB,), np.uint8)}


class ExitsInLoad(Faulty):
    def load(self, ctx: guepard.ModelContext) -> None:
        os._exit(3)


class SegfaultsInLoad(Faulty):
    def load(self, ctx: guepard.ModelContext) -> None:
        ctypes.string_at(0)


class TooLarge(Faulty):
    def load(self, ctx: guepard.ModelContext) -> None:
        grow({"mib": 200})


class WaitsInLoad(Faulty):
    """Does not come to the end of its load while there is the file that its parameter `mark` names."""

    def load(self, ctx: guepard.ModelContext) -> None:
        while Path(ctx.parameters["mark"]).exists():
            ctx.logger.info("loading for ever")
            time.sleep(FOR_EVER_S)


class RunsPrograms(Faulty):
    """Has a program of its own running from `load` on, and forgets to end it."""

    def load(self, ctx: guepard.ModelContext) -> None:
        import subprocess

        self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
        ctx.logger.info("runs a program", extra={"child": self.child.pid})


class EchoEverything(guepard.Model):
    """Gives back whichever inputs it is given, and for those that it is not given an empty tensor."""

    inputs = tuple(guepard.Tensor(name, name, [-1], optional=True) for name in DATATYPES)
    outputs = tuple(guepard.Tensor(f"{name}_back", name, [-1]) for name in DATATYPES)
    max_batch_size = 0

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        empty = {name: np.empty(0, datatype.dtype) for name, datatype in DATATYPES.items()}
        return {f"{name}_back": array for name, array in (empty | inputs).items()}


class Keeps(guepard.Model):
    """Keeps what it was given 50 times, and says how much of that has changed since."""

    inputs = (guepard.Tensor("x", "FP32", [-1]),)
    outputs = (guepard.Tensor("changed", "INT32", [1]),)
    max_batch_size = 4

    def load(self, ctx: guepard.ModelContext) -> None:
        self.kept: list[tuple[Any, Any]] = []

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        x = inputs["x"]
        if len(self.kept) < 50:
            self.kept.append((x, x.copy()))
        changed = sum(not np.array_equal(one, copy) for one, copy in self.kept)
        return {"changed": np.full((len(x), 1), changed, np.int32)}


class WaitsForTheEnd(Faulty):
    """Runs until nobody wants its answer any more, and says in the log why."""

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        if ctx.requests and ctx.requests[0].id is not None:
            (request,) = ctx.requests
            ctx.logger.info("began %s", request.id)
            while not request.is_cancelled:
                time.sleep(0.01)
            late = time.monotonic_ns() >= request.deadline_ns
            ctx.logger.info("ended %s: %s", request.id, "late" if late else "gone", extra={"late": late})
        return super().predict(inputs, ctx)


class Moody(Faulty):
    """Unfit while there is the file that its parameter `mark` names; logs what is done to it."""

    def load(self, ctx: guepard.ModelContext) -> None:
        self.mark = Path(ctx.parameters["mark"])
        self.logger = ctx.logger
        self.logger.info("moody load", extra={"where": self.mark, "number": 7, "huge": 2**80})

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        if ctx.requests and "raises" in ctx.requests[0].parameters:
            raise LookupError("only for the log")
        return super().predict(inputs, ctx)

    def health(self) -> None:
        if self.mark.exists():
            raise RuntimeError("secret detail")

    def unload(self) -> None:
        self.logger.info("moody unload")


class Streams(guepard.Model):
    """Yields 0, 1, 2, …, `x` of them, and does as the parameter `how` says. Its log tells how it was left."""

    inputs = (guepard.Tensor("x", "INT32", [1]),)
    outputs = (guepard.Tensor("y", "INT32", [-1]),)
    max_batch_size = 0

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Iterator[Arrays]:
        how = ctx.requests[0].parameters.get("how") if ctx.requests else None
        try:
            for number in range(int(inputs["x"][0])):
                if number == 3 and how == "raise":
                    raise LookupError("in the middle")
                if number == 3 and how == "refuse":
                    raise guepard.InputError("no more")
                if number == 3 and how == "die":
                    kill({})
                yield {"y": np.full(3_000, number, np.int32)}
        finally:
            ctx.logger.info("left")
            if how == "raise at the end":
                raise LookupError("at the end")

"""Models as Python classes for tests; serve one with `tests/services/python_models.py:Sleep`."""

import asyncio
import json
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import guepard

Arrays = dict[str, NDArray[Any]]


class Sleep(guepard.Model):
    """Sleeps as many milliseconds as the longest row says, and returns its input."""

    inputs = (guepard.Tensor("x", "INT32", [1]),)
    outputs = (guepard.Tensor("y", "INT32", [1]),)
    max_batch_size = 8

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        time.sleep(max(0, int(inputs["x"].max())) / 1_000)
        return {"y": inputs["x"]}


class EchoBytes(guepard.Model):
    """Returns its BYTES input."""

    inputs = (guepard.Tensor("x", "BYTES", [1]),)
    outputs = (guepard.Tensor("y", "BYTES", [1]),)
    max_batch_size = 8

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        return {"y": inputs["x"]}


class NeverLoaded(EchoBytes):
    """Does not come to the end of its load; says in the log that it has begun."""

    def load(self, ctx: guepard.ModelContext) -> None:
        ctx.logger.info("loading for ever")
        threading.Event().wait()


class FailsToLoad(EchoBytes):
    def load(self, ctx: guepard.ModelContext) -> None:
        raise FileNotFoundError(f"there are no weights beside {ctx.path}")


class EchoParameters(guepard.Model):
    """Each row is told its request's parameters, as JSON."""

    inputs = (guepard.Tensor("x", "FP32", [1]),)
    outputs = (guepard.Tensor("parameters", "BYTES", [1]),)
    max_batch_size = 8

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        told = np.empty((len(inputs["x"]), 1), object)
        for request in ctx.requests:
            told[request.rows] = json.dumps(dict(request.parameters), sort_keys=True)
        return {"parameters": told}


MIXED_BYTES: list[str | bytes] = [b"a", "é", b"", b"\xff\xfe", "long " * 20, b"\x00", "", b"b", "😀", b"c", b"d", "e"]


class MixedBytes(guepard.Model):
    """Byte strings and text of many lengths in one [2, 2, 3] output."""

    inputs = (guepard.Tensor("x", "FP32", [1]),)
    outputs = (guepard.Tensor("y", "BYTES", [2, 2, 3]),)

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        return {"y": np.array(MIXED_BYTES, object).reshape(2, 2, 3)}


class NonFinite(guepard.Model):
    """`y` holds numbers that JSON does not have; `x` comes back beside it."""

    inputs = (guepard.Tensor("x", "FP32", [1]),)
    outputs = (guepard.Tensor("y", "FP32", [5]), guepard.Tensor("x", "FP32", [1]))

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        return {"y": np.array([1, np.nan, np.inf, -np.inf, 2], np.float32), "x": inputs["x"]}


class Booleans(guepard.Model):
    """[true, false] in the Python form that the request's parameter `form` names."""

    inputs = (guepard.Tensor("x", "FP32", [1]),)
    outputs = (guepard.Tensor("y", "BOOL", [2]),)

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> dict[str, Any]:
        forms = {
            "array": np.array([True, False]),
            "numpy bools": [np.bool_(True), np.bool_(False)],
            "Python bools": [True, False],
            "int8 array": np.array([1, 0], np.int8),
        }
        return {"y": forms[str(ctx.requests[0].parameters.get("form", "array"))]}


class FailNegative(guepard.Model):
    """Doubles its rows; raises when any of them is negative."""

    inputs = (guepard.Tensor("x", "FP32", [1]),)
    outputs = (guepard.Tensor("y", "FP32", [1]),)
    max_batch_size = 8
    idempotent = True

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        if (inputs["x"] < 0).any():
            raise ArithmeticError("secret: a negative row")
        return {"y": inputs["x"] * 2}


class FailNegativeOnce(FailNegative):
    """The same, for a model that must not run a request twice."""

    idempotent = False


class RefuseNegative(FailNegative):
    """Doubles its rows; refuses the first negative one by its number."""

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        negative = inputs["x"].reshape(-1) < 0
        if negative.any():
            raise guepard.InputError("x must not be negative", row=int(negative.argmax()))
        return {"y": inputs["x"] * 2}


class RefuseNegativeOnce(RefuseNegative):
    idempotent = False


class AsyncDouble(guepard.Model):
    """Doubles its rows after some turns of its own event loop."""

    inputs = FailNegative.inputs
    outputs = FailNegative.outputs
    max_batch_size = 8

    async def load(self, ctx: guepard.ModelContext) -> None:
        await asyncio.sleep(0)

    async def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))
        return {"y": inputs["x"] * 2}


class Stream(guepard.Model):
    """Yields as many answers as `x` says: 0, 1, 2, …"""

    inputs = (guepard.Tensor("x", "INT32", [1]),)
    outputs = (guepard.Tensor("y", "INT32", [1]),)
    max_batch_size = 8

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Iterator[Arrays]:
        for number in range(int(inputs["x"][0, 0])):
            yield {"y": np.array([[number]], np.int32)}


class AsyncStream(Stream):
    async def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> AsyncIterator[Arrays]:  # type: ignore[override]
        for number in range(int(inputs["x"][0, 0])):
            await asyncio.sleep(0)
            yield {"y": np.array([[number]], np.int32)}


class Misbehaving(FailNegative):
    """Answers right, or in the wrong way that the request's parameter `how` names."""

    max_batch_size = 0

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Any:
        x = inputs["x"]
        how = ctx.requests[0].parameters.get("how", "right") if ctx.requests else "right"
        if how == "raises":
            raise RuntimeError("secret: /etc/passwd")
        if how == "exits":
            sys.exit(3)
        if how == "cancels":
            raise asyncio.CancelledError
        wrong: dict[Any, Any] = {
            "right": {"y": x * 2},
            "nothing": None,
            "array": x,
            "missing": {},
            "extra": {"y": x, "z": x},
            "shape": {"y": np.zeros((3, 3), np.float32)},
            "datatype": {"y": x.astype(np.float64)},
            "ragged": {"y": [[1.0], [1.0, 2.0]]},
            "text": {"y": "one"},
        }
        return wrong[how]


class OutsideOfException(BaseException):
    """What some libraries derive their own signals from."""


RAISED: dict[str, Callable[[], BaseException]] = {
    "a class of its own": OutsideOfException,
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "SystemExit": lambda: SystemExit("secret"),
    "CancelledError": asyncio.CancelledError,
    "StopIteration": lambda: StopIteration(3),
    "MemoryError": MemoryError,
    "a group": lambda: BaseExceptionGroup("secret", [KeyboardInterrupt()]),
    "a row that is an array": lambda: guepard.InputError("refused", row=np.array([0, 1])),
    "a row that is text": lambda: guepard.InputError("refused", row="0"),  # type: ignore[arg-type]
    "a row beyond all": lambda: guepard.InputError("refused", row=2**70),
    "a message that is an exception": lambda: guepard.InputError(ValueError("refused")),
    "a message that is bytes": lambda: guepard.InputError(b"refused"),
    "a message of lone surrogates": lambda: guepard.InputError("refused \udcff"),
}


class RaisesAnything(FailNegative):
    """Doubles its rows, unless a request's parameter `how` names what to raise."""

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        for request in ctx.requests:
            if "how" in request.parameters:
                raise RAISED[str(request.parameters["how"])]()
        return {"y": inputs["x"] * 2}


class Noisy(FailNegative):
    """Doubles its rows and talks all the while, on both streams and to both logs."""

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        for number in range(200):
            print("said", number, "x" * 100)
            print("complained", number, "x" * 100, file=sys.stderr)
        ctx.logger.info("noted %d rows", len(inputs["x"]))
        logging.getLogger("some.library").info("whispered")
        return super().predict(inputs, ctx)


class Whispers(FailNegative):
    """Doubles its rows and says so at debug."""

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        ctx.logger.debug("whispered %s", inputs["x"].ravel()[0])
        return super().predict(inputs, ctx)


class Diary(guepard.Model):
    """Says in the log what is done to each instance, and what it is told about itself and its requests."""

    inputs = (guepard.Tensor("x", "INT32", [1]),)
    outputs = (guepard.Tensor("told", "BYTES", [1]), guepard.Tensor("instance", "INT64", [1]))
    max_batch_size = 4

    def load(self, ctx: guepard.ModelContext) -> None:
        self.logger = ctx.logger
        self.logger.info("diary load", extra={"instance": id(self)})

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        told = np.empty((len(inputs["x"]), 1), object)
        told[:] = "warm-up"
        for request in ctx.requests:
            told[request.rows] = json.dumps(
                {
                    "name": ctx.name,
                    "version": ctx.version,
                    "model_parameters": dict(ctx.parameters),
                    "id": request.id,
                    "parameters": dict(request.parameters),
                    "requested_outputs": request.requested_outputs,
                    "seconds_left": (request.deadline_ns - time.monotonic_ns()) / 1e9,
                    "is_cancelled": request.is_cancelled,
                }
            )
        return {"told": told, "instance": np.full((len(told), 1), id(self))}

    def unload(self) -> None:
        time.sleep(0.3)
        self.logger.info("diary unload", extra={"instance": id(self)})


class WritesOnInputs(guepard.Model):
    """Adds 1 in place, as models in Python do without a thought, and answers with that."""

    inputs = (guepard.Tensor("x", "FP32", [2]),)
    outputs = (guepard.Tensor("y", "FP32", [2]),)
    max_batch_size = 8

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        inputs["x"] += 1
        return {"y": inputs["x"]}


class ReturnsItsBuffer(guepard.Model):
    """Answers with what it was sent, from the same memory each time."""

    inputs = (guepard.Tensor("x", "FP32", [-1]),)
    outputs = (guepard.Tensor("y", "FP32", [-1]),)
    max_batch_size = 4

    def load(self, ctx: guepard.ModelContext) -> None:
        self.buffer = np.zeros(4_000_000, np.float32)

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        x = inputs["x"]
        answer = self.buffer[: x.size].reshape(x.shape)
        answer[:] = x
        return {"y": answer}


class Zeros(guepard.Model):
    """Answers with as many bytes as `x` says."""

    inputs = (guepard.Tensor("x", "INT32", [1]),)
    outputs = (guepard.Tensor("y", "UINT8", [-1]),)
    max_batch_size = 4

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        x = inputs["x"]
        return {"y": np.zeros((len(x), int(x.max())), np.uint8)}


class Ramp(guepard.Model):
    """As many sevenths as `x` says, and as many words. With a negative `x` the last ones are NaN and not UTF-8."""

    inputs = (guepard.Tensor("x", "INT64", [1]),)
    outputs = (guepard.Tensor("y", "FP32", [-1]), guepard.Tensor("words", "BYTES", [-1]))
    max_batch_size = 0

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        count = int(inputs["x"][0])
        numbers = np.arange(abs(count), dtype=np.float32) / 7
        words = np.array([b"w\xc3\xb6rter %d" % number for number in range(abs(count) // 10)], object)
        if count < 0:
            numbers[-1] = np.nan
            words[-1] = b"\xff"
        return {"y": numbers, "words": words}


class RunningMean(guepard.Model):
    """`mean` of each row of `x`, and every value's `share` of the row's sum, whatever the rows were padded with."""

    inputs = (guepard.Tensor("x", "FP32", [-1]),)
    outputs = (guepard.Tensor("mean", "FP32", []), guepard.Tensor("share", "FP32", [-1]))
    max_batch_size = 8
    padding: ClassVar[dict[str, Any]] = {"inputs": {"x": 0}, "outputs": {"share": 0}}

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        x = inputs["x"]
        lengths = np.concatenate([np.full(each.rows.stop - each.rows.start, each.length) for each in ctx.requests])
        total = x.sum(axis=1)
        share = np.divide(x, total[:, None], out=np.zeros_like(x), where=total[:, None] != 0)
        return {"mean": (total / np.maximum(lengths, 1)).astype(np.float32), "share": share}

"""Models as Python classes for tests; serve one with `tests/services/python_models.py:Sleep`."""

import threading
import time
from typing import Any

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

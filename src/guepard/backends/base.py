"""The seam between the engine and whatever executes a model.

A backend turns files into a `LoadedModel`; a `LoadedModel` hands out `Executor`s; an executor runs batches.
Nothing here knows about requests' wire format, queues or threads: the engine decides on which thread an executor
runs, and never calls one executor from two threads at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from guepard.core.buffers import BufferPool
from guepard.core.engine_options import Precision
from guepard.core.model import Model
from guepard.core.model_config import ModelDescription, ModelPolicy, Profile
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array, TensorSpec

Inputs = Sequence[Array | None]
Outputs = Sequence[Array]


@dataclass(frozen=True, slots=True)
class ModelSource:
    """What is to be loaded.

    `path` is the version's folder or the single file; `entry` names the class of a `module.py:Class` source.
    `model_class` is the class itself where a program handed it over; `path` is then where files beside it are.
    `trusted`: Python code and pickles may run. `inputs` and `outputs` are those declared in the configuration, for
    backends that cannot read them from the model. `threads` is how many an execution may use, `cpus` and `memory_bytes`
    what all models together may. `cache` is a folder for what is worth keeping between runs of the server; None:
    nothing is kept. `again`: another process has loaded it before, and has said in the log what there is to say.
    `precision` is what an engine is to compute in; None: what is its own, never below that of the model's weights.
    """

    name: str
    version: str
    path: Path
    policy: ModelPolicy
    entry: str | None = None
    trusted: bool = False
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    threads: int = field(default=1)
    model_class: type[Model] | None = None
    profile: Profile = "standard"
    cache: Path | None = None
    cpus: int = 1
    memory_bytes: int = 0
    again: bool = False
    precision: Precision | None = None


class Executor(Protocol):
    """One copy that executes, used by one thread at a time. What derives from it needs `execute` alone."""

    @property
    def buffers(self) -> BufferPool | None:
        """Where the inputs of a batch are best gathered; None: anywhere."""
        return None

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        """Run one batch.

        Shapes: input i is [rows, *dims] (or `dims`, for a model without batches), in the order of the description;
            outputs likewise, with the same number of rows.
        Ownership: the outputs are handed over; the executor does not touch them again.
        Raises: InputError for the caller's fault, anything else for the model's.
        """
        ...

    def execute_stream(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Iterator[Outputs]:
        """As `execute`, for a decoupled model: each item is one response to the only request of the batch."""
        yield self.execute(inputs, requests)

    def terminate(self) -> None:
        """Nobody waits for the execution that runs now: end it early where that is possible. From any thread."""
        return

    def close(self) -> None:
        """Let go of what it holds."""
        return


class LoadedModel(Protocol):
    """A model in memory. `executor()` may be called several times where weights are shared between executors.

    What derives from it needs `description` and `executor` alone.
    """

    description: ModelDescription

    def executor(self) -> Executor: ...

    def wide_executor(self) -> Executor | None:
        """One that takes all threads for one execution, for a server that is idle; None where that gains nothing."""
        return None

    def trim(self) -> None:
        """Give back memory that a burst of traffic left behind.

        Called off the event loop when nothing has been executed for a while. An execution may begin meanwhile.
        """
        return

    def health(self) -> None:
        """Raise when the model knows itself to be unfit. Called off the event loop."""
        return

    def close(self) -> None:
        """Let go of the model. Its executors are closed already."""
        return


class Backend(Protocol):
    """Loads models of one kind. Raises LoadError with a reason that a client may read."""

    @property
    def name(self) -> str: ...

    def load(self, source: ModelSource) -> LoadedModel: ...

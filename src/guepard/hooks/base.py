"""The seam for native steps around a model.

A step is made once for a model, by the loading thread, from a `StepSpec`; it raises LoadError for options or files
that do not do. It keeps no state between calls and is called from several threads at once. Its work is done by
libraries that let go of the interpreter's lock, or is short.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from guepard.core.tensor import Array, TensorSpec

Tensors = Mapping[str, Array]


class PreStep(Protocol):
    """From what a request holds to what the model takes, in one or several such steps."""

    def before(self, wanted: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """What must be there for the step to make `wanted`; those it does not make pass through. Raises: LoadError."""
        ...

    def run(self, tensors: Tensors) -> Tensors:
        """The tensors of one request after the step.

        Shapes: each is [rows, *dims], as `before` has them.
        Raises: InputError that names the tensor, with `row` where one row is to blame.
        """
        ...


class JoinedSteps(Protocol):
    """Two neighbours done together, where that saves something.

    A PreStep that can has `joined(following: PreStep) -> JoinedSteps | None`, asked after `before` of both.
    """

    def run_timed(self, tensors: Tensors, spent_ns: list[int], place: int) -> Tensors:
        """As `run` of both, one after the other. What each takes is added to `spent_ns[place]` and the next."""
        ...


class PostStep(Protocol):
    """From what the model gives to what requests are answered with, in one or several such steps.

    One that needs more than the model's inputs has `rides`, a tuple of TensorSpec: tensors that a step before the model
    makes, or that requests hold, and that travel with each request past the model. `run` finds them in `inputs`.
    """

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """What the step makes of `given`, in order; `inputs` are the model's own. Raises: LoadError."""
        ...

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        """The outputs of one batch after the step. `inputs` are what the model got for it, padding included.

        Shapes: each is [rows, *dims], as `after` has them, in its order.
        """
        ...

"""Runs batches on a model of PyTorch."""

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from guepard.backends.base import Inputs, Outputs
from guepard.backends.pytorch_errors import run_error
from guepard.backends.pytorch_program import Program
from guepard.backends.pytorch_tensors import to_array, to_tensor, torch_dtype
from guepard.core.errors import GuepardError, InputError
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array

_LOGGER = logging.getLogger("guepard.backends.pytorch")


class PyTorchExecutor:
    """Executors share the module. `threads` may compute for one execution, the caller's included.

    `casts`: the module computes in another type than its tensors have, and its outputs are turned back. `lent` are the
    places of tensors that the module keeps and changes; an output that is one of them is copied.
    """

    __slots__ = (
        "_casts",
        "_copies",
        "_dtypes",
        "_inputs",
        "_lent",
        "_model",
        "_outputs",
        "_program",
        "_shapes_are_free",
        "_threads",
        "_torch",
        "python_threads",
    )

    buffers = None

    def __init__(
        self,
        torch: Any,
        program: Program,
        model: str,
        description: ModelDescription,
        threads: int,
        *,
        casts: bool = False,
        lent: Collection[int] = (),
    ) -> None:
        self._torch = torch
        self._program = program
        self._model = model
        self._inputs = description.inputs
        self._outputs = description.outputs
        self._dtypes = [torch_dtype(torch, spec.datatype.name) for spec in description.outputs]
        self._shapes_are_free = any(spec.free for spec in description.inputs)
        self._copies = program.writes
        self._threads = threads
        self._casts = casts
        self._lent = frozenset(lent)
        self.python_threads: Sequence[int] | None = () if program.runs_python else None

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        torch = self._torch
        # The number is the calling thread's own, and executors of several models may share one.
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        # What several requests were gathered into is nobody else's; what one request brought may lie in its body.
        copies = self._copies and len(requests) <= 1
        try:
            with torch.inference_mode():
                tensors = [
                    None if array is None else to_tensor(torch, spec, array.copy() if copies else array)
                    for spec, array in zip(self._inputs, inputs, strict=True)
                ]
                found = self._program.pick(self._program.call(tensors))
                return [
                    self._own(to_array(torch, tensor, spec, dtype, casts=self._casts))
                    for tensor, spec, dtype in zip(found, self._outputs, self._dtypes, strict=True)
                ]
        except GuepardError:
            raise
        except Exception as error:
            raise self._failure(error) from None

    def execute_stream(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Iterator[Outputs]:
        yield self.execute(inputs, requests)

    def terminate(self) -> None:
        """Not possible: PyTorch has no way to end a run early."""

    def close(self) -> None:
        """Nothing to do: the module belongs to the loaded model."""

    def _own(self, array: Array) -> Array:
        return array.copy() if self._lent and array.ctypes.data in self._lent else array

    def _failure(self, error: Exception) -> GuepardError:
        failure = run_error(error, self._model, shapes_are_free=self._shapes_are_free)
        if isinstance(failure, InputError):
            _LOGGER.info("model %s: %s", self._model, error)
        else:
            _LOGGER.error("model %s: %s", self._model, error, exc_info=error)
        return failure

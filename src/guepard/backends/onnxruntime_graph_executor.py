"""Runs batches as CUDA graphs: one launch for all kernels of an execution, where each kernel's own costs more.

A graph reads and writes the same addresses each time, for one combination of shapes. So batches are filled up to a few
sizes, each combination has tensors of its own on the GPU, and data is copied in before and out after. What fits none of
them runs without a graph.

Source: ONNX Runtime, "Using CUDA Graphs" of its page on the CUDA provider; `gpu_graph_id` of its run options.
"""

import logging
import threading
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort

from guepard.backends.base import Outputs
from guepard.backends.capture_gate import GATE
from guepard.backends.cuda_runtime import HostMemory
from guepard.backends.onnxruntime_device_executor import DeviceExecutor, can_bind, declared_shape
from guepard.backends.onnxruntime_executor import OnnxRuntimeExecutor
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array

_LOGGER = logging.getLogger("guepard.backends.onnxruntime")

MAX_GRAPHS = 32
"""Of one instance: each holds memory on the GPU for as long as the model is loaded."""

_GRAPH_ID = "gpu_graph_id"
_NO_GRAPH = "-1"

Shapes = tuple[tuple[int, ...], ...]


class _Graph(NamedTuple):
    """Of one combination of shapes: where it reads and writes. `threads`: those that have captured it.

    `staging`: where inputs of fewer rows are filled up.
    """

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    staging: Sequence[Array]
    binding: Any
    options: Any
    threads: set[int]


def batch_sizes(max_batch_size: int) -> tuple[int, ...]:
    """What batches are filled up to: powers of two, and the largest."""
    return tuple(sorted({*(1 << step for step in range((max_batch_size or 1).bit_length())), max_batch_size or 1}))


def check_graph(description: ModelDescription, *, one_shape: bool) -> None:
    """Raise LoadError for a model whose shapes are not a few. `one_shape`: the provider keeps a single graph."""
    if not can_bind(description):
        raise LoadError(
            "enable_cuda_graph: a graph cannot take BYTES and BF16 tensors, and the model has such; leave it out"
        )
    batch, padding = description.max_batch_size, description.padding
    buckets = (padding.buckets or ()) if padding is not None else ()
    padded = (padding.inputs or {}) if padding is not None and buckets else {}
    for spec in description.inputs:
        if spec.free and (one_shape or spec.name not in padded):
            remedy = "fix it in the model" if one_shape else "fix it in the model, or write padding.buckets"
            raise LoadError(
                f"enable_cuda_graph needs shapes that are known, and input {spec.name!r} is {list(spec.dims)}; {remedy}"
            )
    loose = next((spec for spec in description.outputs if declared_shape(spec, batch > 0) is None), None)
    if one_shape and loose is not None:
        raise LoadError(
            f"tensorrt.enable_cuda_graph needs outputs of known shape, and {loose.name!r} is {list(loose.dims)}; "
            "fix it in the model"
        )
    if one_shape and batch > 1:
        raise LoadError(
            f"tensorrt.enable_cuda_graph keeps one graph, for one batch size, and max_batch_size is {batch}; write "
            "max_batch_size: 1, or cuda.enable_cuda_graph with providers: [cuda]"
        )
    if batch > 1 and not description.batch_verified:
        raise LoadError(
            "enable_cuda_graph fills batches up, which takes your word that rows do not depend on one another; write "
            "max_batch_size, or max_batch_size: 0"
        )
    combinations = len(batch_sizes(batch)) * max(1, len(buckets))
    if combinations > MAX_GRAPHS:
        raise LoadError(
            f"enable_cuda_graph: {len(batch_sizes(batch))} batch sizes and {len(buckets)} lengths are {combinations} "
            f"graphs, and {MAX_GRAPHS} are kept; name fewer padding.buckets, or lower max_batch_size"
        )


class GraphExecutor(DeviceExecutor):
    """`device` and `gpu` say where the tensors of a graph lie."""

    __slots__ = ("_buckets", "_device", "_gpu", "_graphs", "_is_off", "_new_binding", "_sizes")

    def __init__(
        self,
        session: Any,
        model: str,
        description: ModelDescription,
        host_memory: HostMemory | None = None,
        *,
        device: str = "cuda",
        gpu: int = 0,
    ) -> None:
        super().__init__(session, model, description, host_memory)
        self._options = _run_options(_NO_GRAPH)
        self._new_binding = session.io_binding
        self._device = device
        self._gpu = gpu
        self._sizes = batch_sizes(description.max_batch_size)
        padding = description.padding
        self._buckets = frozenset(padding.buckets or ()) if padding is not None else frozenset[int]()
        self._graphs: dict[Shapes, _Graph] = {}
        self._is_off = False

    def terminate(self) -> None:
        """Too late: a graph is launched as a whole."""

    def _run_arrays(self, arrays: Sequence[Array], requests: Sequence[InferenceRequest]) -> Outputs:
        shapes = self._filled(arrays)
        if shapes is None or self._is_off:
            with GATE.shared():
                return OnnxRuntimeExecutor.execute(self, arrays, requests)
        graph, thread = self._graphs.get(shapes), threading.get_ident()
        is_captured = graph is not None and thread in graph.threads
        with GATE.shared() if is_captured else GATE.alone():
            try:
                if graph is None:
                    graph = self._graphs[shapes] = self._prepare(shapes)
                outputs = self._launch(graph, arrays)
                graph.threads.add(thread)
                return outputs
            except Exception as error:
                # Whose fault it is, a run without a graph says. If that succeeds, it is the graph's.
                outputs = list(OnnxRuntimeExecutor.execute(self, arrays, requests))
                _LOGGER.error("model %s: its CUDA graph failed, so it runs without: %s", self._model, error)
                self._is_off = True
                self._graphs.clear()
                return outputs

    def _filled(self, arrays: Sequence[Array]) -> Shapes | None:
        """The shapes that these inputs are filled up to; None for those that are not among the expected."""
        lengths = {
            size
            for spec, array in zip(self._inputs, arrays, strict=True)
            if spec.free
            for dim, size in zip(spec.dims, array.shape[self._batched :], strict=True)
            if dim == -1
        }
        if not lengths <= self._buckets:
            return None
        if not self._batched:
            return tuple(array.shape for array in arrays)
        rows = len(arrays[0])
        if not 0 < rows <= self._sizes[-1]:
            return None
        size = self._sizes[bisect_left(self._sizes, rows)]
        return tuple((size, *array.shape[1:]) for array in arrays)

    def _prepare(self, shapes: Shapes) -> _Graph:
        """Tensors on the GPU for a graph that is yet to be captured."""
        staging = [np.zeros(shape, spec.datatype.dtype) for spec, shape in zip(self._inputs, shapes, strict=True)]
        inputs = [self._on_device(array.shape, array.dtype) for array in staging]
        outputs = [
            self._on_device(shape, spec.datatype.dtype)
            for spec, shape in zip(self._outputs, self._output_shapes(shapes, staging), strict=True)
        ]
        binding = self._new_binding()
        for name, value in zip(self._input_names, inputs, strict=True):
            binding.bind_ortvalue_input(name, value)
        for name, value in zip(self._output_names, outputs, strict=True):
            binding.bind_ortvalue_output(name, value)
        return _Graph(inputs, outputs, staging, binding, _run_options(str(len(self._graphs) + 1)), set())

    def _output_shapes(self, shapes: Shapes, staging: Sequence[Array]) -> Sequence[tuple[int, ...]]:
        rows = shapes[0][:1] if self._batched else ()
        declared = [None if shape is None else (*rows, *shape) for shape in self._shapes]
        if None not in declared:
            return [shape for shape in declared if shape is not None]
        return [output.shape for output in OnnxRuntimeExecutor.execute(self, staging, ())]

    def _on_device(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return ort.OrtValue.ortvalue_from_shape_and_type(shape, dtype, self._device, self._gpu)

    def _launch(self, graph: _Graph, arrays: Sequence[Array]) -> Outputs:
        for value, array, staged in zip(graph.inputs, arrays, graph.staging, strict=True):
            if array.shape == staged.shape:
                value.update_inplace(array)
            else:
                staged[: len(array)] = array  # the rest are rows of before, whose answers nobody gets
                value.update_inplace(staged)
        self._run_bound(graph.binding._iobinding, graph.options)
        found = [value.numpy() for value in graph.outputs]
        if self._device == "cpu":  # there the arrays are views
            found = [array.copy() for array in found]
        return [array[: len(arrays[0])] for array in found] if self._batched else found


def _run_options(graph: str) -> Any:
    options = ort.RunOptions()
    options.add_run_config_entry(_GRAPH_ID, graph)
    return options

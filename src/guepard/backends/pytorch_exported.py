"""Programs of `torch.export`: they say everything of their inputs and outputs."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.pytorch_files import damaged
from guepard.backends.pytorch_names import picker
from guepard.backends.pytorch_program import Program
from guepard.backends.pytorch_tensors import datatype_of
from guepard.core.errors import LoadError
from guepard.core.tensor import TensorSpec

_LOGGER = logging.getLogger("guepard.backends.pytorch")

_LOADING = threading.Lock()  # torch.export.load keeps what it reads with in one place for the whole process


def load_exported(torch: Any, source: ModelSource) -> Any:
    """The exported program. Raises: LoadError."""
    try:
        with _LOADING:
            if source.path.suffix == ".pt2":
                return torch.export.load(source.path)
            with source.path.open("rb") as file:  # a path of another suffix is refused
                return torch.export.load(file)
    except Exception as error:
        _LOGGER.error("model %s: %s", source.name, error)
        raise damaged(source.path) from None


def exported_program(torch: Any, source: ModelSource, exported: Any) -> Program:
    """Raises: LoadError for what cannot travel, and for a model that changes its own state."""
    if source.inputs or source.outputs:
        raise LoadError("inputs or outputs are declared, but an exported program says them itself; remove them")
    signature = exported.graph_signature
    changed = _changed_state(exported)
    if changed is not None:
        raise LoadError(
            f"{source.path.name} changes its own state ({changed}) in every run, "
            "so answers would depend on earlier requests; call eval() on the model before exporting it"
        )
    values = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    inputs = tuple(_spec(torch, name, values.get(name), "input") for name in signature.user_inputs)
    names = _output_names(exported, len(signature.user_outputs))
    outputs = tuple(
        _spec(torch, name, values.get(each) if isinstance(each, str) else each, "output")
        for name, each in zip(names, signature.user_outputs, strict=True)
    )
    module = exported.module()
    return Program(
        kind="exported program",
        module=module,
        call=_caller(torch, exported, module),
        pick=_picker(torch, exported, names),
        inputs=inputs,
        outputs=outputs,
        is_whole=True,
        writes=bool(signature.user_inputs_to_mutate) or _writes(exported.graph),
        runs_python=True,
        max_rows=_max_rows(exported, [values[spec.name] for spec in inputs]),
    )


def _spec(torch: Any, name: str, value: Any, role: str) -> TensorSpec:
    if not isinstance(value, torch.Tensor):
        raise LoadError(
            f"{role} {name!r} is {type(value).__name__}, which is no tensor; export a module that takes and returns "
            "tensors only"
        )
    datatype = datatype_of(value.dtype)
    if datatype is None:
        raise LoadError(f"{role} {name!r} is of type {value.dtype}, which cannot travel; cast it inside the model")
    return TensorSpec(name, datatype, [dim if isinstance(dim, int) else -1 for dim in value.shape])


def _output_names(exported: Any, count: int) -> list[str]:
    """Keys of a dict or fields of a tuple; else Triton's convention, as the names of operators mean nothing."""
    spec = exported.call_spec.out_spec
    if spec is not None and all(child.is_leaf() for child in spec.children()):
        if spec.type is dict:
            return [str(key) for key in spec.context]
        named = getattr(spec.type, "_fields", None)
        if named is not None and len(named) == count:
            return list(named)
    return [f"OUTPUT__{index}" for index in range(count)]


def _caller(torch: Any, exported: Any, module: Any) -> Callable[[Sequence[Any]], Any]:
    spec = exported.call_spec.in_spec
    positional, named = spec.children()
    if not named.children() and all(child.is_leaf() for child in positional.children()):
        return lambda tensors: module(*tensors)
    unflatten = torch.utils._pytree.tree_unflatten

    def call(tensors: Sequence[Any]) -> Any:
        arguments, keywords = unflatten(tensors, spec)
        return module(*arguments, **keywords)

    return call


def _picker(torch: Any, exported: Any, names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    spec = exported.call_spec.out_spec
    if (
        spec is None
        or spec.is_leaf()
        or (spec.type in (tuple, list, dict) and all(c.is_leaf() for c in spec.children()))
    ):
        return picker(names)
    leaves: Callable[[Any], Sequence[Any]] = torch.utils._pytree.tree_leaves
    return leaves


def _changed_state(exported: Any) -> str | None:
    """A buffer that it writes to."""
    signature = exported.graph_signature
    declared = next(iter(signature.buffers_to_mutate.values()), None)
    if declared is not None:
        return str(declared)
    for node in exported.graph.nodes:  # as it is written before it is taken apart
        schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
        if schema is not None and schema.is_mutable and node.args:
            buffer = signature.inputs_to_buffers.get(getattr(node.args[0], "name", ""))
            if buffer is not None:
                return str(buffer)
    return None


def _writes(graph: Any) -> bool:
    """Whether any of its operators writes in place: into what, nobody can say for certain."""
    schemas = [getattr(node.target, "_schema", None) for node in graph.nodes if node.op == "call_function"]
    return any(schema is not None and schema.is_mutable for schema in schemas)


def _max_rows(exported: Any, values: Sequence[Any]) -> int:
    """What the export allows as the first dimension; 0: no bound."""
    bounds = []
    for value in values:
        symbol = getattr(getattr(value.shape[0], "node", None), "expr", None) if value.dim() else None
        limits = exported.range_constraints.get(symbol)
        if limits is not None and limits.upper.is_Integer:
            bounds.append(int(limits.upper))
    return min(bounds, default=0)

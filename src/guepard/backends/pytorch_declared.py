"""Models whose inputs the configuration declares, and whose outputs it may leave to a trial."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.pytorch_names import as_mapping, as_sequence, picker
from guepard.backends.pytorch_program import Program
from guepard.backends.pytorch_tensors import datatype_of, to_tensor
from guepard.core.errors import LoadError
from guepard.core.tensor import TensorSpec, empty_array

_LOGGER = logging.getLogger("guepard.backends.pytorch")

_FREE_SIZES = (16, 128, 224, 1)  # what free dimensions might be
_ROWS = (2, 3)


def no_inputs(why: str, names: Sequence[str]) -> LoadError:
    """The error for a model of which more must be said, with lines that can be pasted."""
    entries = ", ".join(f"{{name: {name}, datatype: FP32, dims: [-1]}}" for name in names or ["INPUT__0"])
    return LoadError(
        f"{why}; declare inputs in the configuration of the model, with their own datatypes and dims without the "
        f"batch: inputs: [{entries}]"
    )


def declared_program(
    torch: Any,
    source: ModelSource,
    kind: str,
    module: Any,
    call: Callable[[Sequence[Any]], Any],
    *,
    writes: bool,
    runs_python: bool,
) -> Program:
    """`call` takes tensors in the order of `source.inputs`. Raises: LoadError."""
    for spec in (*source.inputs, *source.outputs):
        if spec.datatype.name == "BYTES":
            raise LoadError(f"{spec.name!r} is declared as BYTES, which PyTorch has no tensors for")
    outputs = source.outputs or _discover(torch, source, call)
    return Program(
        kind=kind,
        module=module,
        call=call,
        pick=picker([spec.name for spec in outputs]),
        inputs=source.inputs,
        outputs=outputs,
        is_whole=False,
        writes=writes,
        runs_python=runs_python,
    )


def _discover(torch: Any, source: ModelSource, call: Callable[[Sequence[Any]], Any]) -> tuple[TensorSpec, ...]:
    """Run it with samples of two sizes: a dimension that is not the same in both answers is free."""
    batched = source.policy.max_batch_size != 0
    free = any(spec.free for spec in source.inputs)
    accepted: list[tuple[int, Any]] = []
    failure: Exception | None = None
    for size in _FREE_SIZES if free else _FREE_SIZES[:1]:
        try:
            accepted.append((size, _run(torch, source, call, _ROWS[len(accepted)] if batched else None, size)))
            if len(accepted) == len(_ROWS):
                break
        except Exception as error:  # a sample that was made up: whatever the model raises, another may do
            failure = error
    if not accepted:
        _LOGGER.warning("model %s: no sample that was made up ran: %s", source.name, failure)
        raise LoadError(
            "what the model returns was to be found out by running it, and it refused each sample; declare its "
            "outputs too, or correct the declared inputs: outputs: [{name: OUTPUT__0, datatype: FP32, dims: [-1]}]"
        )
    if len(accepted) == 1 and batched:
        accepted.append((accepted[0][0], _run(torch, source, call, _ROWS[1], accepted[0][0])))
    first, last = accepted[0][1], accepted[-1][1]
    guessed = accepted[0][0] if free and len({size for size, _ in accepted}) == 1 else None
    keyed = as_mapping(first)
    names = (
        [f"OUTPUT__{index}" for index in range(len(as_sequence(first)))]
        if keyed is None
        else [str(key) for key in keyed]
    )
    pick = picker(names)
    return tuple(
        _spec(torch, name, left, right, guessed, batched=batched)
        for name, left, right in zip(names, pick(first), pick(last), strict=True)
    )


def _run(torch: Any, source: ModelSource, call: Callable[[Sequence[Any]], Any], rows: int | None, size: int) -> Any:
    arrays = []
    for spec in source.inputs:
        dims = [size if dim == -1 else dim for dim in spec.dims]
        arrays.append(empty_array(spec, dims if rows is None else [rows, *dims]))
    with torch.inference_mode():
        return call([to_tensor(torch, spec, array) for spec, array in zip(source.inputs, arrays, strict=True)])


def _spec(torch: Any, name: str, left: Any, right: Any, guessed: int | None, *, batched: bool) -> TensorSpec:
    if not isinstance(left, torch.Tensor):
        raise LoadError(f"output {name!r} is {type(left).__name__}, which is no tensor; return tensors only")
    datatype = datatype_of(left.dtype)
    if datatype is None:
        raise LoadError(f"output {name!r} is of type {left.dtype}, which cannot travel; cast it inside the model")
    if batched and (left.shape[:1] != (_ROWS[0],) or right.shape[:1] != (_ROWS[1],)):
        raise LoadError(
            f"output {name!r} does not have one row for each row of the inputs (its shape is {list(left.shape)} for "
            f"{_ROWS[0]} rows); set max_batch_size: 0 for a model without batches, and declare whole shapes"
        )
    dims = [one if one == other and one != guessed else -1 for one, other in zip(left.shape, right.shape, strict=True)]
    return TensorSpec(name, datatype, dims[1:] if batched else dims)

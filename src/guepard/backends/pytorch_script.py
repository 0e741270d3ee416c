"""TorchScript archives. They name their arguments, but neither datatypes nor shapes: the configuration does."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.pytorch_declared import declared_program, no_inputs
from guepard.backends.pytorch_files import damaged
from guepard.backends.pytorch_names import Parameter, arrange
from guepard.backends.pytorch_program import Program
from guepard.core.errors import LoadError

_LOGGER = logging.getLogger("guepard.backends.pytorch")

_TENSORS = ("Tensor", "Optional[Tensor]")


def load_script(torch: Any, source: ModelSource) -> Any:
    """The module. Raises: LoadError."""
    try:
        module = torch.jit.load(source.path, map_location="cpu")
    except Exception as error:
        _LOGGER.error("model %s: %s", source.name, error)
        if "Unknown builtin op" in str(error) or "Unknown type name" in str(error):
            raise LoadError(
                f"{source.path.name} uses an operator that this PyTorch does not have, and libraries of custom "
                "operators are never loaded"
            ) from None
        raise damaged(source.path) from None
    with suppress(Exception):  # a frozen module has no modes any more
        module.eval()
    return module


def script_program(torch: Any, source: ModelSource, module: Any) -> Program:
    """Raises: LoadError when the declared inputs do not fit."""
    what = source.path.name
    parameters, skipped = _parameters(module, what)
    if not source.inputs:
        raise no_inputs(f"{what} is TorchScript, which names its inputs only", [each.name for each in parameters])
    places = arrange(source.inputs, parameters, what)
    call = _caller(module, [parameters[place].name for place in places], places, skipped=skipped)
    return declared_program(torch, source, "torchscript", module, call, writes=_writes(module), runs_python=False)


def _parameters(module: Any, what: str) -> tuple[list[Parameter], bool]:
    """Arguments that take tensors, and whether there are others between them."""
    found: list[Parameter] = []
    others = 0
    arguments = module.forward.schema.arguments[1:]
    for argument in arguments:
        kind = str(argument.type)
        if kind in _TENSORS:
            found.append(Parameter(argument.name, argument.has_default_value()))
        elif argument.has_default_value():
            others += 1
        else:
            raise LoadError(
                f"argument {argument.name!r} of {what} is a {kind}, which no request can hold; script a module that "
                "takes tensors only"
            )
    if not found:
        raise LoadError(f"{what} takes no tensors, so there is nothing to ask it")
    return found, others > 0


def _caller(
    module: Any, names: Sequence[str], places: Sequence[int], *, skipped: bool
) -> Callable[[Sequence[Any]], Any]:
    if not skipped and list(places) == list(range(len(places))):
        return lambda tensors: module(*tensors)
    return lambda tensors: module(**dict(zip(names, tensors, strict=True)))


def _writes(module: Any) -> bool:
    """Whether any of its operators writes in place: into what, nobody can say for certain."""
    try:
        nodes = list(module.inlined_graph.nodes())
        while nodes:
            node = nodes.pop()
            if _is_in_place(node.kind()):
                return True
            for block in node.blocks():
                nodes.extend(block.nodes())
    except RuntimeError:
        return True
    return False


def _is_in_place(kind: str) -> bool:
    name = kind.rpartition("::")[2]
    return (name.endswith("_") and not name.endswith("__")) or name in ("CallMethod", "CallFunction")

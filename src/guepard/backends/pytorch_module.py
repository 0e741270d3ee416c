"""Modules that Python code builds: a function in a file beside the weights or in an installed package, or a pickle."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module as import_by_name
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from guepard.backends.base import ModelSource
from guepard.backends.extras import missing_extra
from guepard.backends.python_module import forget_module, import_module
from guepard.backends.pytorch_declared import declared_program, no_inputs
from guepard.backends.pytorch_files import damaged, kind_of
from guepard.backends.pytorch_names import Parameter, arrange
from guepard.backends.pytorch_program import Program
from guepard.core.errors import LoadError

_LOGGER = logging.getLogger("guepard.backends.pytorch")

_OURS = "guepard.formats."
_SHOWN_KEYS = 3


class Built(NamedTuple):
    """`imported`: what was imported for it alone, and goes with it."""

    module: Any
    imported: ModuleType | None


def factory_of(source: ModelSource) -> str:
    """What builds the module, as `FILE.py:FUNCTION` or `PACKAGE.MODULE:FUNCTION`; empty: nothing does."""
    asked = source.policy.engines.pytorch.factory
    if not asked and source.entry is not None:
        return f"{source.path.name}:{source.entry}"
    return asked


def is_ours(factory: str) -> bool:
    """Whether it is a part of Guepard, whose code needs nobody's trust."""
    return factory.startswith(_OURS)


def build_module(torch: Any, source: ModelSource, factory: str) -> Built:
    """Call the factory, and load weights into what it returns. Raises: LoadError."""
    folder = source.path if source.path.is_dir() else source.path.parent
    place, _, name = factory.rpartition(":")
    if not place or not name.isidentifier():
        raise LoadError(f"pytorch.factory is {factory!r}; write FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION")
    imported: ModuleType | None = None
    try:
        if place.endswith(".py"):
            home = imported = import_module(_beside(folder, place))
        else:
            home = import_by_name(place)
        function = getattr(home, name, None)
        if not callable(function):
            raise LoadError(f"pytorch.factory: {place} has no function {name!r}")
        options = source.policy.engines.pytorch
        module = function(source.path, options.factory_parameters or source.policy.parameters)
        if not isinstance(module, torch.nn.Module):
            raise LoadError(
                f"pytorch.factory: {name} returned {type(module).__name__}, and a torch.nn.Module is needed"
            )
        weights = _weights_file(source, folder)
        if weights is not None:
            load_weights(torch, module, weights, source.name)
    except BaseException as error:
        if imported is not None:
            forget_module(imported)
        if isinstance(error, LoadError) or not isinstance(error, Exception | SystemExit):
            raise
        _LOGGER.error("model %s: its factory %s failed", source.name, factory, exc_info=error)
        why = (
            f"there is no module named {error.name!r}"
            if isinstance(error, ModuleNotFoundError)
            else (f"it raised {type(error).__name__}; the server's log says more")
        )
        raise LoadError(f"pytorch.factory: {factory} failed: {why}") from None
    return Built(module, imported)


def unpickle_module(torch: Any, source: ModelSource) -> Built:
    """A module that was pickled as a whole. Only for trusted sources. Raises: LoadError."""
    try:
        module = torch.load(source.path, map_location="cpu", weights_only=False)  # runs code of the file
    except Exception as error:
        _LOGGER.error("model %s: %s", source.name, error, exc_info=error)
        if isinstance(error, ModuleNotFoundError | AttributeError):
            raise LoadError(
                f"{source.path.name} is a pickle that needs its model's own class, which is not importable here; save "
                "weights alone and give pytorch: {factory: ...}, or export it with torch.export"
            ) from None
        raise damaged(source.path) from None
    if not isinstance(module, torch.nn.Module):
        raise LoadError(f"{source.path.name} holds {type(module).__name__}, and a torch.nn.Module is needed")
    return Built(module, None)


def load_weights(torch: Any, module: Any, file: Path, model: str) -> None:
    """Raises: LoadError for a file that holds something else, and for weights of another module."""
    state = _read_weights(torch, file, model)
    for key in ("state_dict", "model_state_dict"):  # as checkpoints of training hold them
        inner = state.get(key)
        if isinstance(inner, Mapping):
            state = inner
    try:
        missing, unexpected = module.load_state_dict(state, strict=False)
    except (RuntimeError, AttributeError, TypeError) as error:
        _LOGGER.error("model %s: %s", model, error)
        raise LoadError(
            f"the weights in {file.name} have other shapes than the module that the factory built"
        ) from None
    for keys, what in ((missing, "lacks weights of the module"), (unexpected, "holds weights that the module lacks")):
        if keys:
            shown = ", ".join(keys[:_SHOWN_KEYS]) + (", ..." if len(keys) > _SHOWN_KEYS else "")
            raise LoadError(f"{file.name} {what} that the factory built: {shown}")


def module_program(torch: Any, source: ModelSource, module: Any, what: str) -> Program:
    """Raises: LoadError when the declared inputs do not fit."""
    module.eval().requires_grad_(requires_grad=False)
    parameters, takes_any = _parameters(module)
    if not source.inputs:
        raise no_inputs(f"{what} is Python code, which does not say what it takes", [each.name for each in parameters])
    call = _caller(module, source, parameters, what, takes_any=takes_any)
    return declared_program(torch, source, "module", module, call, writes=True, runs_python=True)


def _read_weights(torch: Any, file: Path, model: str) -> Any:
    if not file.is_file():
        raise LoadError(f"there is no file of weights {file.name!r}")
    try:
        if file.suffix == ".safetensors":
            try:
                from safetensors.torch import load_file
            except ImportError:
                raise missing_extra("torch", f"{file.name}, a file of safetensors,") from None
            return load_file(file)
        kind = kind_of(file)
        if kind != "weights":
            raise LoadError(f"{file.name} holds a whole model ({kind}) and not weights alone; save module.state_dict()")
        state = torch.load(file, map_location="cpu", weights_only=True)
    except LoadError:
        raise
    except Exception as error:
        _LOGGER.error("model %s: %s", model, error)
        raise LoadError(f"{file.name} cannot be read as weights: it is damaged, or holds more than tensors") from None
    if not isinstance(state, Mapping):
        raise LoadError(f"{file.name} holds {type(state).__name__}; save module.state_dict()")
    return state


def _weights_file(source: ModelSource, folder: Path) -> Path | None:
    asked = source.policy.engines.pytorch.weights
    if asked:
        return _beside(folder, asked)
    is_weights = source.path.is_file() and source.path.suffix != ".py"
    return source.path if is_weights and not is_ours(factory_of(source)) else None


def _beside(folder: Path, name: str) -> Path:
    """A file in the model's folder or below it. Raises: LoadError for others."""
    file = folder / name
    if not file.resolve().is_relative_to(folder.resolve()):
        raise LoadError(f"{name!r} lies outside of the model's folder; put it beside the model")
    if not file.is_file():
        raise LoadError(f"there is no file {name!r} in the model's folder")
    return file


def _parameters(module: Any) -> tuple[list[Parameter], bool]:
    """Arguments of `forward`, and whether it takes any name."""
    try:
        found = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return [], True
    named = [
        Parameter(each.name, each.default is not inspect.Parameter.empty)
        for each in found
        if each.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    ]
    return named, any(
        each.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY) for each in found
    )


def _caller(
    module: Any, source: ModelSource, parameters: Sequence[Parameter], what: str, *, takes_any: bool
) -> Callable[[Sequence[Any]], Any]:
    if takes_any:
        return lambda tensors: module(*tensors)
    places = arrange(source.inputs, parameters, what)
    names = [parameters[place].name for place in places]
    return lambda tensors: module(**dict(zip(names, tensors, strict=True)))

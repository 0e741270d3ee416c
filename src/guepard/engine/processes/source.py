"""What a process needs to load a model: its ModelSource, with a class by where it is defined."""

import pickle
import sys
from dataclasses import dataclass, replace
from importlib import import_module as import_by_name
from pathlib import Path
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.python_module import import_module
from guepard.core.errors import LoadError
from guepard.core.model import Model

MARK = "GUEPARD_IMPORTED_FOR_A_CLASS"
"""In the environment while a process imports a program for a class: the program must not start servers then."""


@dataclass(frozen=True, slots=True)
class _ClassPlace:
    """Where a class that a program handed over is defined: in a module, or in `file`, which is being run."""

    module: str
    file: str | None
    qualified_name: str


def pack(source: ModelSource) -> bytes:
    """`source` for another process. Raises: LoadError for a class that no other process can find."""
    place = None if source.model_class is None else _place(source.model_class)
    try:
        return pickle.dumps((replace(source, model_class=None), place))
    except Exception as error:
        raise LoadError(f"its parameters cannot be handed to a process: {error}; use execution: thread") from None


def unpack(data: bytes) -> ModelSource:
    """Only for what came from our own server. Raises: LoadError, and whatever importing the class's module raises."""
    loaded: tuple[ModelSource, _ClassPlace | None] = pickle.loads(data)  # noqa: S301 - from the process that started us, over a socket of its own
    source, place = loaded
    return source if place is None else replace(source, model_class=_find(place))


def _place(model_class: type[Model]) -> _ClassPlace:
    name, module = model_class.__qualname__, model_class.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    if "<locals>" in name or (module == "__main__" and file is None):
        raise LoadError(
            f"class {model_class.__name__} is defined inside a function or an interactive session, where no other "
            "process finds it; define it in a module, or use execution: thread"
        )
    if module != "__main__":
        return _ClassPlace(module, None, name)
    spec = sys.modules[module].__spec__  # of `python -m`, which knows by what name the file is a module
    return _ClassPlace(module, file, name) if spec is None else _ClassPlace(spec.name, None, name)


def _find(place: _ClassPlace) -> type[Model]:
    found: Any = import_by_name(place.module) if place.file is None else import_module(Path(place.file))
    for part in place.qualified_name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise LoadError(f"{place.module} has no class {place.qualified_name!r} derived from guepard.Model")
    return found

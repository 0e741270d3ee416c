"""What a program names as a model: what the command line can name, and classes."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from guepard.core.errors import ConfigurationError
from guepard.core.model import Model
from guepard.engine.processes.source import MARK
from guepard.settings.kinds import show
from guepard.settings.model_argument import ModelArguments, name_from_class, read_model_arguments
from guepard.settings.model_options import NAME_PATTERN, NAME_RULE
from guepard.settings.section import Tree

ModelArgument = str | os.PathLike[str] | type[Model]
ModelsArgument = ModelArgument | Sequence[ModelArgument] | Mapping[str, ModelArgument]


class ProgramModels(NamedTuple):
    """The models as the settings take them, where each was named, and the classes among them by name."""

    arguments: ModelArguments
    labels: list[str]
    classes: dict[str, type[Model]]


def read_models(models: ModelsArgument, folder: Path) -> ProgramModels:
    """One model, several, or several by name; relative paths are seen from `folder`. Raises: ConfigurationError."""
    if MARK in os.environ:
        raise ConfigurationError(
            "models: this program is only being imported by the process of a model, for its class; start servers and "
            'load models under `if __name__ == "__main__":`'
        )
    read = ProgramModels(ModelArguments([], []), [], {})
    for where, name, model in _entries(models):
        if isinstance(model, type) and issubclass(model, Model):
            tree = _class_tree(name or name_from_class(model.__name__), model)
            read.classes[tree["name"]] = model
            found = ModelArguments([tree], [])
        else:
            text = _text(where, model)
            found = read_model_arguments([text if name is None else f"{name}={text}"], folder)
        read.arguments.models.extend(found.models)
        read.arguments.model_repository.extend(found.model_repository)
        read.labels.extend(where for _ in found.models)
    return read


def _entries(models: ModelsArgument) -> Iterator[tuple[str, str | None, object]]:
    """Where each model stands in the call, the name it was given there, and what it is."""
    if isinstance(models, Mapping):
        for name, model in models.items():
            if not isinstance(name, str) or not re.match(NAME_PATTERN, name):
                raise ConfigurationError(f"models: {show(name)} is not a model name; {NAME_RULE}")
            yield f"models[{name!r}]", name, model
    elif isinstance(models, list | tuple):
        for index, model in enumerate(models):
            yield f"models[{index}]", None, model
    else:
        yield "models", None, models


def _class_tree(name: str, model: type[Model]) -> Tree:
    """The class as the file would write it. Its path is its file's folder, where it may keep weights."""
    file = getattr(sys.modules.get(model.__module__), "__file__", None)
    folder = Path(file).absolute().parent if file else Path.cwd()
    # The code is the program's own, so it may run.
    return {"name": name, "path": str(folder), "backend": "python", "trust": True}


def _text(where: str, model: object) -> str:
    if isinstance(model, Model):
        raise ConfigurationError(f"{where}: an instance of {type(model).__name__}; name the class itself")
    if isinstance(model, str | os.PathLike):
        path = os.fspath(model)
        if isinstance(path, str):
            return path
    raise ConfigurationError(
        f"{where}: expected a path, NAME=PATH, module.py:Class or a subclass of guepard.Model, "
        f"got {getattr(model, '__name__', type(model).__name__)}"
    )

"""MODEL on the command line: `PATH` or `NAME=PATH`, with the name found in the path when it is not given."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from guepard.core.errors import ConfigurationError
from guepard.settings.model_location import absolute, locate, refuse_by_name, split_entry
from guepard.settings.model_options import NAME_PATTERN, NAME_RULE
from guepard.settings.section import Tree


class ModelArguments(NamedTuple):
    """`models` as the file would write them, `model_repository` as folders; all paths absolute."""

    models: list[Tree]
    model_repository: list[str]


def read_model_arguments(arguments: Sequence[str], folder: Path) -> ModelArguments:
    """What the MODEL arguments name, seen from `folder`. Raises ConfigurationError."""
    read = ModelArguments([], [])
    for argument in arguments:
        name, text = _split_name(argument, folder)
        path = absolute(text, folder)
        kind = locate(path)
        if kind == "repository":
            if name is not None:
                raise ConfigurationError(f"{argument}: a model repository holds several models and takes no name")
            read.model_repository.append(path)
            continue
        model: Tree = {"name": name or _name_from(path), "path": path}
        if kind == "class":
            # Named by the operator in person, so its code may run.
            model |= {"backend": "python", "trust": True}
        read.models.append(model)
    return read


def _split_name(argument: str, folder: Path) -> tuple[str | None, str]:
    """The name, None when it is to be found, and the path. A path that exists may hold `=` itself."""
    refuse_by_name(argument)
    if not argument:
        raise ConfigurationError("MODEL: expected PATH or NAME=PATH, got an empty text")
    name, equals, text = argument.partition("=")
    if not equals or os.path.exists(split_entry(absolute(argument, folder)).path):
        return None, argument
    refuse_by_name(text)
    if not re.match(NAME_PATTERN, name):
        raise ConfigurationError(f"{argument}: {name!r} is not a model name; {NAME_RULE}")
    if not text:
        raise ConfigurationError(f"{argument}: write the path after {name}=")
    return name, text


def _name_from(path: str) -> str:
    """A valid name: the class in snake case, the file's stem or the folder's name, other characters as `_`."""
    file, entry = split_entry(path)
    text = file.name if file.is_dir() else file.stem
    return _valid(text) if entry is None else name_from_class(entry)


def name_from_class(class_name: str) -> str:
    """A valid name: the class's in snake case."""
    return _valid(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", class_name).lower())


def _valid(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text).lstrip("_.-")[:128] or "model"

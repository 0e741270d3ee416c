"""From command line, environment and file to one `Settings`: command line > environment > file > default."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from guepard.core.errors import ConfigurationError
from guepard.settings.model_argument import ModelArguments, read_model_arguments
from guepard.settings.model_location import absolute, refuse_by_name, require_existing
from guepard.settings.options import ServerSettings, Settings
from guepard.settings.rules import enforce
from guepard.settings.section import Tree, merge, section_of
from guepard.settings.switches import ENVIRONMENT_PREFIX, read_environment, read_flags
from guepard.settings.yaml_file import read_yaml

DEFAULT_FILE = "guepard.yaml"


class Resolution(NamedTuple):
    """The settings with nothing left open, and the file they were read from, if any."""

    settings: Settings
    file: Path | None


def resolve(
    models: Sequence[str] = (),
    *,
    flags: Mapping[str, object],
    config: str | None,
    environment: Mapping[str, str],
    folder: Path,
    is_terminal: bool,
) -> Resolution:
    """What shall be served, and how.

    `models` are MODEL arguments; `flags` the values of switches by key (`server.http_port`), as text; `folder` is what
    relative paths outside the file are relative to. Without MODEL, repository and `config`, `guepard.yaml` in `folder`
    is read. Every model holds the options of `defaults` that it does not set itself, and a `trust` that is decided.
    Raises: ConfigurationError, naming the option, what came and what to write.
    """
    arguments = read_model_arguments(models, folder)
    spoken = _relative_to(folder, merge(read_environment(environment), read_flags(flags)))
    config = config or environment.get(f"{ENVIRONMENT_PREFIX}CONFIG")
    file = _find_file(config, folder, is_alone=not models and not spoken.get("model_repository"))
    label = "" if file is None else str(file.relative_to(folder) if file.is_relative_to(folder) else file)
    written = {} if file is None else _read_file(file, label)
    tree = merge(merge(_situation(environment, is_terminal), written), spoken)
    return Resolution(_settle(tree, label, arguments, [model["path"] for model in arguments.models]), file)


def resolve_in_program(
    arguments: ModelArguments,
    labels: Sequence[str],
    *,
    options: Mapping[str, object],
    config: str | Mapping[str, object] | None,
    environment: Mapping[str, str],
    folder: Path,
) -> Settings:
    """What a program asked for: as `resolve`, with values as Python has them.

    `labels` say where each model of `arguments` was named; `options` are those of `server` by name; `config` is a file,
    or what it would hold, seen from `folder`. No file is read unasked. Two defaults are not the command's: a model that
    fails concerns the caller, so `exit_on_error` is true, and gRPC, whose library brings threads of its own into the
    process and minds forks, is off.
    Raises: ConfigurationError, naming the option, what came and what to write.
    """
    server: Tree = {"server": section_of(ServerSettings).read(options, "")}
    spoken = _relative_to(folder, merge(read_environment(environment), server))
    written: Tree = {}
    label = "config"
    if isinstance(config, str):
        file = Path(absolute(config, folder))
        require_existing(file)
        label = str(file.relative_to(folder) if file.is_relative_to(folder) else file)
        written = _read_file(file, label)
    elif config is not None:
        written = _relative_to(folder, _read_tree(config, label))
    tree = merge(merge({"server": {"exit_on_error": True, "grpc_port": "none"}}, written), spoken)
    return _settle(tree, label, arguments, labels)


def _settle(tree: Tree, label: str, arguments: ModelArguments, labels: Sequence[str]) -> Settings:
    """The settings that `tree`, with the models of `arguments` added, amounts to."""
    tree["model_repository"] = [*tree.get("model_repository", ()), *arguments.model_repository]
    listed: list[Tree] = tree.get("models", [])
    tree["models"] = [_complete(model, tree) for model in [*listed, *arguments.models]]
    settings: Settings = section_of(Settings).build(tree)
    enforce(settings, [*[f"{label}: models[{index}]" for index in range(len(listed))], *labels])
    return settings


def _situation(environment: Mapping[str, str], is_terminal: bool) -> Tree:
    """Defaults that depend on where the server runs."""
    tree: Tree = {"logging": {"format": "console" if is_terminal else "json"}}
    if "KUBERNETES_SERVICE_HOST" in environment:
        tree = merge(tree, section_of(Settings).read({"server": {"pre_stop_delay": "5s"}}, ""))
    return tree


def _find_file(config: str | None, folder: Path, is_alone: bool) -> Path | None:
    if config is not None:
        path = Path(absolute(config, folder))
        require_existing(path)
        return path
    path = folder / DEFAULT_FILE
    return path if is_alone and path.is_file() else None


def _read_file(file: Path, label: str) -> Tree:
    try:
        written = read_yaml(file)
    except ConfigurationError as error:
        raise ConfigurationError(f"{label}: {error}") from None
    return _relative_to(file.parent, _read_tree(written, label))


def _read_tree(written: object, label: str) -> Tree:
    try:
        tree = section_of(Settings).read(written, "")
        for index, model in enumerate(tree.get("models", ())):
            if model.get("path") is not None:
                _refuse_by_name(model["path"], f"models[{index}].path")
    except ConfigurationError as error:
        raise ConfigurationError(f"{label}: {error}") from None
    return tree


def _refuse_by_name(path: str, where: str) -> None:
    try:
        refuse_by_name(path)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _relative_to(folder: Path, tree: Tree) -> Tree:
    """The tree with every path made absolute, as seen from `folder`."""
    seen = dict(tree)
    if "model_repository" in tree:
        seen["model_repository"] = [absolute(path, folder) for path in tree["model_repository"]]
    cache = tree.get("server", {}).get("cache_dir")
    if cache not in (None, "none") and cache.strip():
        seen["server"] = tree["server"] | {"cache_dir": absolute(os.path.expanduser(cache), folder)}
    if "models" in tree:
        seen["models"] = [
            model if model.get("path") is None else model | {"path": absolute(model["path"], folder)}
            for model in tree["models"]
        ]
    return seen


def _complete(model: Tree, tree: Tree) -> Tree:
    complete = merge(tree.get("defaults", {}), model)
    if complete.get("trust") is None:
        complete["trust"] = tree.get("server", {}).get("trust", False)
    return complete

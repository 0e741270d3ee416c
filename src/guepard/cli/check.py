"""What `guepard serve --check` says: what would be served, what would fail, what is risky."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from guepard.backends.registry import AUTO, BACKEND_NAMES
from guepard.core.errors import ConfigurationError, LoadError
from guepard.hooks.registry import make_post_step, make_pre_step
from guepard.settings.model_location import locate, repository_models, require_existing, split_entry
from guepard.settings.model_options import NAME_PATTERN, NAME_RULE, ModelSettings
from guepard.settings.policy import repository_model
from guepard.settings.resolve import Resolution
from guepard.settings.rules import risks


def refusal(error: ConfigurationError) -> str:
    """The JSON document for a configuration that cannot be read."""
    return json.dumps({"valid": False, "errors": [str(error)]}, ensure_ascii=False)


def check(resolution: Resolution, as_json: bool) -> int:
    """Print the report. Returns the exit code: 2 if something named in the configuration cannot be served."""
    settings = resolution.settings
    models = list(settings.models)
    for repository in settings.model_repository:
        models += [
            repository_model(settings, name, str(Path(repository, name)))
            for name in repository_models(Path(repository))
        ]
    errors = [problem for model in models if (problem := _problem(model))]
    warnings = risks(settings)
    if as_json:
        document = {
            "valid": not errors,
            "file": resolution.file and str(resolution.file),
            "settings": msgspec.to_builtins(msgspec.structs.replace(settings, models=tuple(models)), enc_hook=str),
            "errors": errors,
            "warnings": warnings,
        }
        print(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        server = settings.server
        print(f"configuration  {resolution.file or 'no file'}")
        print(f"HTTP           {server.host} port {server.http_port}, metrics on port {server.metrics_port}")
        print(f"gRPC           {'none' if server.grpc_port == 'none' else f'port {server.grpc_port}'}\n")
        print(_table(models))
        for warning in warnings:
            print(f"guepard: warning: {warning}", file=sys.stderr)
        for error in errors:
            print(f"guepard: error: {error}", file=sys.stderr)
    return 2 if errors else 0


def _problem(model: ModelSettings) -> str | None:
    """Why the model could not be served, as far as names and folders show."""
    if not re.match(NAME_PATTERN, model.name):
        return f"{model.path}: {model.name!r} is not a model name; {NAME_RULE}"
    if model.path is None:
        return None
    try:
        if model.backend not in (AUTO, *BACKEND_NAMES):  # another package's: it alone knows its files
            require_existing(Path(model.path))
            return _wrong_step(model, Path(model.path))
        kind = locate(model.path)
    except ConfigurationError as error:
        return f"{model.name}: {error}"
    if kind == "repository":
        return f"{model.name}: {model.path} holds several models; name the folder under model_repository"
    if not model.trust and model.backend in ("auto", "python") and _holds_code(model.path):
        return f"{model.name}: {model.path} is Python code, which runs only with trust: true or --trust"
    return _wrong_step(model, Path(model.path))


def _wrong_step(model: ModelSettings, path: Path) -> str | None:
    """Why one of its steps cannot be made, as far as that shows without the model."""
    folder = path if path.is_dir() else path.parent
    for field, specs, make in (
        ("preprocess", model.preprocess, make_pre_step),
        ("postprocess", model.postprocess, make_post_step),
    ):
        for index, spec in enumerate(specs):
            try:
                make(spec, folder)
            except LoadError as error:
                return f"{model.name}: {field}[{index}]: {error}"
    return None


def _holds_code(path: str) -> bool:
    file, entry = split_entry(path)
    return entry is not None or any(file.glob("model.py")) or any(file.glob("[1-9]*/model.py"))


def _table(models: Sequence[ModelSettings]) -> str:
    rows = [("model", "backend", "batch", "instances", "execution", "queue", "timeout", "path")]
    rows += [
        (
            model.name,
            model.backend,
            "auto" if model.max_batch_size is None else str(model.max_batch_size),
            str(model.instance_group.count),
            model.instance_group.execution,
            str(model.dynamic_batching.max_queue_size),
            f"{model.timeout.default} (max {model.timeout.max})",
            model.path or "-",
        )
        for model in models
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )

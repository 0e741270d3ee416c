"""Which format reads what. A format is imported when the first model needs it."""

from importlib import import_module
from typing import cast

from guepard.backends.base import ModelSource
from guepard.formats.base import Format, Resolved

_HOMES: dict[str, tuple[str, str]] = {
    "sklearn": ("guepard.formats.sklearn", "SklearnFormat"),
    "huggingface": ("guepard.formats.huggingface", "HuggingFaceFormat"),
}

FORMAT_NAMES = tuple(_HOMES)


def resolve(source: ModelSource, backend: str) -> Resolved:
    """What is to be loaded for a model of `backend`: itself, unless that is the name of a format. Raises: LoadError."""
    if backend not in _HOMES:
        return Resolved(source, backend)
    module, attribute = _HOMES[backend]
    return cast(Format, getattr(import_module(module), attribute)()).resolve(source)

"""Guepard turns a machine-learning model into a fast, robust API.

Importing the package does nothing: the public names below are looked up when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guepard.core.errors import InputError as InputError
    from guepard.core.model import Model as Model
    from guepard.core.model import ModelContext as ModelContext
    from guepard.core.tensor import TensorSpec as Tensor

__version__ = "0.1.0"
__all__ = ["InputError", "Model", "ModelContext", "Tensor", "__version__"]

_HOMES = {
    "InputError": ("guepard.core.errors", "InputError"),
    "Model": ("guepard.core.model", "Model"),
    "ModelContext": ("guepard.core.model", "ModelContext"),
    "Tensor": ("guepard.core.tensor", "TensorSpec"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'guepard' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)

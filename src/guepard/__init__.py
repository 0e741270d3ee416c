"""Guepard turns a machine-learning model into a fast, robust API.

Importing the package does nothing: the public names below are looked up when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guepard.core.errors import ConfigurationError as ConfigurationError
    from guepard.core.errors import DeadlineExceeded as DeadlineExceeded
    from guepard.core.errors import GuepardError as GuepardError
    from guepard.core.errors import InputError as InputError
    from guepard.core.errors import InternalError as InternalError
    from guepard.core.errors import LoadError as LoadError
    from guepard.core.errors import ModelError as ModelError
    from guepard.core.errors import NotFound as NotFound
    from guepard.core.errors import NotReady as NotReady
    from guepard.core.errors import QueueFull as QueueFull
    from guepard.core.errors import Unsupported as Unsupported
    from guepard.core.model import Model as Model
    from guepard.core.model import ModelContext as ModelContext
    from guepard.core.tensor import TensorSpec as Tensor
    from guepard.embedding.local_model import LocalModel as LocalModel
    from guepard.embedding.local_model import load as load
    from guepard.embedding.server import Server as Server
    from guepard.embedding.server import serve as serve

__version__ = "0.1.0"
__all__ = [
    "ConfigurationError",
    "DeadlineExceeded",
    "GuepardError",
    "InputError",
    "InternalError",
    "LoadError",
    "LocalModel",
    "Model",
    "ModelContext",
    "ModelError",
    "NotFound",
    "NotReady",
    "QueueFull",
    "Server",
    "Tensor",
    "Unsupported",
    "__version__",
    "load",
    "serve",
]

_HOMES = {
    "ConfigurationError": ("guepard.core.errors", "ConfigurationError"),
    "DeadlineExceeded": ("guepard.core.errors", "DeadlineExceeded"),
    "GuepardError": ("guepard.core.errors", "GuepardError"),
    "InputError": ("guepard.core.errors", "InputError"),
    "InternalError": ("guepard.core.errors", "InternalError"),
    "LoadError": ("guepard.core.errors", "LoadError"),
    "LocalModel": ("guepard.embedding.local_model", "LocalModel"),
    "Model": ("guepard.core.model", "Model"),
    "ModelContext": ("guepard.core.model", "ModelContext"),
    "ModelError": ("guepard.core.errors", "ModelError"),
    "NotFound": ("guepard.core.errors", "NotFound"),
    "NotReady": ("guepard.core.errors", "NotReady"),
    "QueueFull": ("guepard.core.errors", "QueueFull"),
    "Server": ("guepard.embedding.server", "Server"),
    "Tensor": ("guepard.core.tensor", "TensorSpec"),
    "Unsupported": ("guepard.core.errors", "Unsupported"),
    "load": ("guepard.embedding.local_model", "load"),
    "serve": ("guepard.embedding.server", "serve"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'guepard' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)

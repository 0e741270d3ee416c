"""The compiled part of the package, where it was built and is not switched off."""

import os
from types import ModuleType


def load_compiled() -> ModuleType | None:
    """The module; None in a pure package, or with GUEPARD_NO_COMPILED=1."""
    if os.environ.get("GUEPARD_NO_COMPILED", "") not in ("", "0"):
        return None
    try:
        from guepard.protocols import _json_numbers
    except ImportError:
        return None
    return _json_numbers

"""Imports the module of a Python model so that models stay strangers to one another.

Every load executes the files anew under a name of its own, so two models may each have a `model.py`, and a reload sees
what is on disk. While the module is being imported, and only on the importing thread, its folder comes first on the
import path: `import tokens` beside `model.py` finds the model's own `tokens.py`, whatever other models or installed
packages are called. Afterwards nothing of it is left in `sys.modules` but the module under its private name. Hence
siblings are imported at the top of the file, not inside functions.

Compiled files are neither read nor written: the check that they are fresh is too coarse for a quick reload, and a
repository may be read-only.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

_SERIAL = count(1)
_IMPORTING = threading.RLock()


def import_module(path: Path) -> ModuleType:
    """Execute the file at `path` as a fresh module. Whatever it raises comes through; nothing is left behind then."""
    name = f"_guepard_model_{next(_SERIAL)}"
    spec = spec_from_file_location(name, path, loader=_FreshSourceLoader(name, str(path)))
    assert spec is not None, "a spec with a loader is never missing"
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Registered, because dataclasses and pickle look a class's module up by its name.
    sys.modules[name] = module
    try:
        with _siblings_first(path.parent):
            spec.loader.exec_module(module)
    except BaseException:
        forget_module(module)
        raise
    return module


def forget_module(module: ModuleType) -> None:
    sys.modules.pop(module.__name__, None)


class _FreshSourceLoader(SourceFileLoader):
    """Compiles the source each time: without a time stamp importlib neither reads nor writes `__pycache__`."""

    def path_stats(self, path: Any) -> Any:
        raise OSError


class _SiblingFinder:
    """Finds modules in the model's folder, and the modules of packages in it, for one thread."""

    def __init__(self, folder: Path, own: set[str]) -> None:
        self._folder = folder
        self._own = own
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.get_ident() != self._thread or fullname.partition(".")[0] not in self._own:
            return None
        for entry in (str(self._folder),) if path is None else path:
            spec = _finder(entry).find_spec(fullname, target)
            if spec is not None:
                return spec
        return None


def _finder(folder: str) -> FileFinder:
    return FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FreshSourceLoader, SOURCE_SUFFIXES))


@contextmanager
def _siblings_first(folder: Path) -> Iterator[None]:
    """Let imports find the modules in `folder` first, and forget them at the end."""
    # A sibling named like a part of Python, or of us, stays out of reach: half the process holds the real one already.
    own = {module.name for module in iter_modules([str(folder)])} - sys.stdlib_module_names - {"guepard"}
    with _IMPORTING:
        strangers = _take_modules(own)
        finder = _SiblingFinder(folder, own)
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            _take_modules(own)
            sys.modules.update(strangers)


def _take_modules(names: set[str]) -> dict[str, ModuleType]:
    """Remove the modules called `names`, and those inside them, from `sys.modules` and return them."""
    found = [name for name in list(sys.modules) if name.partition(".")[0] in names]
    return {name: sys.modules.pop(name) for name in found}

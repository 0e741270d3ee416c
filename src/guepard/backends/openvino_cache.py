"""Compiled models on disk, so that the next start neither reads the model's own file nor compiles.

OpenVINO has a cache of its own, but opens whatever lies there. This one checks that files are those that were written,
keeps within bounds, and is only used in a folder that nobody else can write to: see `weight_cache`. Beside the compiled
form lies what was found out about the model while it was read. The file is mapped, not read: processes share its pages.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import openvino

from guepard.backends.onnx_signature import OnnxSignature, OnnxValue
from guepard.backends.openvino_settings import DEVICE
from guepard.backends.openvino_values import ValueRule
from guepard.backends.private_folder import private_folder
from guepard.backends.weight_cache import Copy, Source, WeightCache
from guepard.core.tensor import Array

log = logging.getLogger("guepard.backends.openvino")

FOLDER = "openvino"
"""Of `server.cache_dir`."""

WORTH_KEEPING_BYTES = 4 << 20
"""Smaller models are compiled in no time."""

_BLOB, _FOUND = "model.blob", "found.json"
_FORMAT = 2  # of what is kept: part of its key


class Compiled(NamedTuple):
    """A compiled model, the signature that it was read with, and rules for its inputs.

    `memory` is what it reads its weights from, if that is not its own: it has to outlive every execution.
    """

    model: Any
    signature: OnnxSignature
    rules: tuple[ValueRule, ...]
    memory: Array | None = None


class CompiledModels:
    """Compiled forms of the model in `files`, kept in `cache`; None or a small model: nothing is kept.

    Failures are told in the log, and change nothing else.
    """

    def __init__(self, name: str, files: Sequence[Path], cache: Path | None) -> None:
        self._name = name
        self._files = files
        self._size_bytes = sum(file.stat().st_size for file in files)
        self._folder = cache / FOLDER if cache is not None and self._size_bytes >= WORTH_KEEPING_BYTES else None
        self._copies: list[Copy] = []

    def get(self, core: Any, properties: Mapping[str, Any], compile_model: Callable[[], Compiled]) -> Compiled:
        """The compiled model: with `memory` if it was there already. Raises: whatever `compile_model` raises."""
        if self._folder is None:
            return compile_model()
        source = Source(self._files, _recipe(core, properties))
        found = self._attempt("read", lambda: self._find(core, source, properties))
        if isinstance(found, Compiled):
            return found
        compiled = compile_model()
        self._attempt("kept", lambda: self._keep(source, compiled))
        return compiled

    def release(self) -> None:
        """The compiled models are gone: what is kept of them may be removed when room is needed."""
        for copy in self._copies:
            copy.release()

    def _find(self, core: Any, source: Source, properties: Mapping[str, Any]) -> Compiled | None:
        assert self._folder is not None
        if not self._folder.exists():
            return None
        cache = WeightCache(private_folder(self._folder))
        copy = cache.find(source)
        if copy is None:
            return None
        try:
            signature, rules = _found(json.loads((copy.folder / _FOUND).read_text()))
            # A private mapping: OpenVINO asks for memory that it could write to.
            memory = np.memmap(copy.folder / _BLOB, np.uint8, mode="c")
            model = core.import_model(openvino.Tensor(memory, shared_memory=True), DEVICE, dict(properties))
        except Exception:
            cache.discard(copy)
            raise
        self._copies.append(copy)
        return Compiled(model, signature, rules, memory)

    def _keep(self, source: Source, compiled: Compiled) -> None:
        assert self._folder is not None

        def write(folder: Path) -> None:
            (folder / _BLOB).write_bytes(compiled.model.export_model().getbuffer())
            (folder / _FOUND).write_text(json.dumps([compiled.signature, compiled.rules]))

        self._copies.append(WeightCache(private_folder(self._folder)).make(source, 2 * self._size_bytes, write))

    def _attempt(self, what: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            log.warning("model %s: its compiled form could not be %s: %s", self._name, what, error)
            return None


def _found(told: Any) -> tuple[OnnxSignature, tuple[ValueRule, ...]]:
    """Both as they were before they became JSON."""
    (inputs, outputs, metadata), rules = told
    values = [tuple(OnnxValue(*value) for value in values) for values in (inputs, outputs)]
    return OnnxSignature(values[0], values[1], metadata), tuple(ValueRule(*rule) for rule in rules)


def _recipe(core: Any, properties: Mapping[str, Any]) -> str:
    """All that decides what a compiled form is, beside the model."""
    parts = {
        "format": _FORMAT,
        "version": openvino.__version__,
        "cpu": core.get_property(DEVICE, "FULL_DEVICE_NAME"),
        "capabilities": sorted(core.get_property(DEVICE, "OPTIMIZATION_CAPABILITIES")),
        "properties": {name: str(value) for name, value in sorted(properties.items())},
    }
    return json.dumps(parts, sort_keys=True)

"""One copy of a model's weights in memory for all sessions of all processes.

ONNX Runtime rearranges weights for its kernels when a session is made (pre-packing), each session for itself. It can
save the optimised model with the rearranged weights in a file beside it; a session made from that maps the file and so
shares its pages with every other, and is made in a fraction of the time. The file belongs to a model, an engine, a CPU
and options: all of that is in its key. Answers are the same to the bit.

Source: `session.save_external_prepacked_constant_initializers`, onnxruntime_session_options_config_keys.h.
"""

import json
import logging
import platform
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort

from guepard.backends.private_folder import private_folder
from guepard.backends.weight_cache import WEIGHTS_FOLDER, Copy, Source, WeightCache

log = logging.getLogger(__name__)

WORTH_SHARING_BYTES = 4 << 20
"""Smaller models are loaded as they are: a copy would save less than it costs to look for it."""

_FORMAT = 1  # of the copies: part of their key
_MODEL, _WEIGHTS = "model.onnx", "weights.bin"
_INLINE_BYTES = "1024"  # weights smaller than that stay in the model's file
# The file has the weights as they were and as kernels want them, and a little more for alignment.
_GROWTH = 2.1
# While a copy is made: the file as it was read, the weights as they are saved, and those of a session that serves.
_PEAK = 6
_SAVING = {
    "session.optimized_model_external_initializers_file_name": _WEIGHTS,
    "session.optimized_model_external_initializers_min_size_in_bytes": _INLINE_BYTES,
    "session.save_external_prepacked_constant_initializers": "1",
}
_CPU_INFO = Path("/proc/cpuinfo")


class SharedWeights:
    """Makes the sessions of one model, whose own file is the first of `files`.

    `options` are those that a copy is made with, new at each call. Without a `cache`, and for small models, every
    session has weights of its own. Failures are told in the log, once and at `level`, and change nothing else.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[Path],
        cache: Path | None,
        options: Callable[[], Any],
        level: int = logging.WARNING,
    ) -> None:
        self._name = name
        self._level = level
        self._model = files[0]
        self._options = options
        self._source: Source | None = None
        self._copy: Copy | None = None
        self._folder: Path | None = None  # while copies may be looked for and made there
        self._cache: WeightCache | None = None
        self.size_bytes = sum(file.stat().st_size for file in files)
        if cache is not None and self.is_worthwhile:
            self._folder = cache / WEIGHTS_FOLDER
            self._attempt(lambda: self._find(files))

    @property
    def is_worthwhile(self) -> bool:
        return self.size_bytes >= WORTH_SHARING_BYTES

    @property
    def are_shared(self) -> bool:
        return self._copy is not None

    def session(self, options: Any) -> Any:
        """A new session, on the shared weights if there are any, else from the model's own file."""
        if self._copy is not None:
            level = options.graph_optimization_level
            try:
                return _copy_session(self._copy.folder, options)
            except Exception as error:
                options.graph_optimization_level = level
                log.warning("model %s: the copy of its weights is of no use: %s", self._name, error)
                if self._cache is not None:
                    self._cache.discard(self._copy)
                self._copy = None
        return _session(self._model, options)

    def share(self, memory_bytes: int) -> bool:
        """Have sessions that are made from now on share their weights, if that is possible; says so.

        `memory_bytes` is what the process may use at all: making a copy takes several times the weights for a moment.
        Cost: the first time for this model on this machine that of loading it and of writing twice its size.
        """
        if self._copy is None and self._folder is not None:
            if self.size_bytes * _PEAK > memory_bytes:
                reason = "there is too little memory to prepare its weights for sharing"
                log.log(self._level, "model %s: %s", self._name, reason)
            else:
                self._attempt(self._make)
        return self._copy is not None

    def release(self) -> None:
        """The sessions are gone: the copy may be removed when room is needed."""
        if self._copy is not None:
            self._copy.release()

    def _find(self, files: Sequence[Path]) -> None:
        assert self._folder is not None
        self._source = Source(files, _recipe(self._options()))
        if self._folder.exists():
            self._cache = WeightCache(private_folder(self._folder))
            self._copy = self._cache.find(self._source)

    def _make(self) -> None:
        assert self._folder is not None
        assert self._source is not None
        self._cache = WeightCache(private_folder(self._folder))
        self._copy = self._cache.make(self._source, int(self.size_bytes * _GROWTH), self._write)

    def _write(self, folder: Path) -> None:
        options = self._options()
        options.optimized_model_filepath = str(folder / _MODEL)
        for key, value in _SAVING.items():
            options.add_session_config_entry(key, value)
        expected = _signature(_session(self._model, options))
        if not (folder / _WEIGHTS).exists():
            raise OSError("it keeps nothing that could be shared")
        if _signature(_copy_session(folder, self._options())) != expected:
            raise OSError("ONNX Runtime saved it with other inputs or outputs")

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # every session has weights of its own then, which is slower to load and larger
            self._folder = None
            reason = f"{error.strerror} (server.cache_dir)" if isinstance(error, OSError) and error.strerror else error
            log.log(self._level, "model %s: its weights cannot be shared between sessions: %s", self._name, reason)


def _session(model: Path, options: Any) -> Any:
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _copy_session(folder: Path, options: Any) -> Any:
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # that was done before saving
    return _session(folder / _MODEL, options)


def _signature(session: Any) -> list[tuple[str, str, list[Any]]]:
    nodes = (*session.get_inputs(), *session.get_outputs(), *session.get_overridable_initializers())
    return [(node.name, node.type, node.shape) for node in nodes]


def _recipe(options: Any) -> str:
    """All that decides what a copy looks like, beside the model."""
    return json.dumps(
        {
            "format": _FORMAT,
            "engine": [ort.__version__, ort.get_build_info()],
            "cpu": [platform.machine(), *sorted(_cpu_flags())],
            "optimisation": str(options.graph_optimization_level),
            "saving": _SAVING,
        }
    )


def _cpu_flags() -> set[str]:
    """What this CPU can, which decides how kernels want their weights: a machine with another needs its own copy."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", _CPU_INFO.read_text(), re.MULTILINE)
    return set(found[1].split()) if found else set()

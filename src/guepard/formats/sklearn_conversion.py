"""The conversion of one estimator, in a process that may hang, crash or be ended, and what came of it on disk."""

import json
import logging
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from guepard import __version__
from guepard.backends.base import ModelSource
from guepard.backends.private_folder import private_folder
from guepard.backends.weight_cache import Copy, Source, WeightCache

log = logging.getLogger(__name__)

MODEL, REPORT = "model.onnx", "report.json"
FAILED_TO_LOAD = "failed_to_load"
"""In a report: why there is no estimator to convert. Nothing else is in it then."""

FOLDER = "sklearn"
"""Of `server.cache_dir`."""

_FORMAT = 2  # of what is kept: part of its key
_PACKAGES = ("scikit-learn", "skl2onnx", "onnx", "onnxruntime", "numpy", "pandas", "skops")
_LEAST_ROOM_BYTES = 16 << 20

# What is kept for as long as this process lives: models may be opened again, by processes of instances too.
_copies: list[Copy] = []
_scratch: list["TemporaryDirectory[str]"] = []


class _Unfinished(Exception):
    """The process gave no report of its own: nothing to be remembered."""


class Conversion:
    """Of the estimator in `file`."""

    def __init__(self, source: ModelSource, file: Path) -> None:
        self._source = source
        self._file = file
        self._options = source.policy.engines.sklearn

    def folder(self) -> Path:
        """With a report in it, and the model if it was converted. Made now, unless it was made before."""
        cache = self._source.cache
        if cache is not None:
            try:
                return self._kept(WeightCache(private_folder(cache / FOLDER)))
            except _Unfinished as unfinished:
                return self._report(str(unfinished))
            except OSError as error:
                log.warning("model %s: what it is converted to is not kept: %s", self._source.name, error)
        folder = _new_folder()
        try:
            self._convert(folder)
        except _Unfinished as unfinished:
            return self._report(str(unfinished))
        return folder

    def _kept(self, cache: WeightCache) -> Path:
        source = Source([self._file], self._recipe())
        copy = cache.find(source)
        if copy is None:
            copy = cache.make(source, _LEAST_ROOM_BYTES + 2 * source.size_bytes, self._convert)
        _copies.append(copy)
        return copy.folder

    def _recipe(self) -> str:
        """What the result depends on beside the file."""
        return json.dumps(
            [_FORMAT, __version__, self._options.datatype, [[name, _version(name)] for name in _PACKAGES]]
        )

    def _convert(self, folder: Path) -> None:
        """Raises: _Unfinished."""
        order = {
            "file": str(self._file.resolve()),
            "trusted": self._source.trusted,
            "datatype": self._options.datatype,
            "folder": str(folder),
        }
        timeout_s = self._options.convert_timeout_ns / 1e9
        command = [sys.executable, "-m", "guepard.formats.sklearn_child", json.dumps(order)]
        # Its input is what it learns from that this process has ended. What models print is theirs.
        with (
            TemporaryFile() as told,
            subprocess.Popen(  # noqa: S603 - the interpreter that runs this, and a module of this package
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=told
            ) as child,
        ):
            try:
                child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise _Unfinished(f"converting it took more than {timeout_s:g} s (sklearn.convert_timeout)") from None
            finally:
                child.kill()
            told.seek(0)
            words = told.read()[-2_000:].decode(errors="replace")
        if not (folder / REPORT).is_file():
            log.warning("converting %s ended: %s", self._file.name, words)
            ended = f"by signal {-child.returncode}" if child.returncode < 0 else f"with {child.returncode}"
            raise _Unfinished(f"the process that was to convert it ended {ended}")

    def _report(self, reason: str) -> Path:
        folder = _new_folder()
        (folder / REPORT).write_text(json.dumps({"converted": False, "reason": reason}))
        return folder


def _new_folder() -> Path:
    """It goes when this process ends."""
    scratch = TemporaryDirectory(prefix="guepard-sklearn-")
    _scratch.append(scratch)
    return Path(scratch.name)


def _version(package: str) -> str:
    with suppress(PackageNotFoundError):
        return version(package)
    return ""

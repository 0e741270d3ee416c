"""Decisions that were made before, on disk: one small file for each, named by all that it was made of.

What cannot be read is as good as not there and is written anew; what cannot be written is decided again next time.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from guepard.backends.private_folder import private_folder
from guepard.engine.engine_trial.decision import Decision
from guepard.engine.engine_trial.load_mark import LoadMark

log = logging.getLogger(__name__)

ENGINES_FOLDER = "engines"
"""Of `server.cache_dir`."""

_MOST_FILES = 512  # when there are more, those that were not used for longest go
_MOST_BYTES = 1 << 20  # of a file that is read

Kept = TypeVar("Kept")


class FileDigest(msgspec.Struct, frozen=True):
    """The checksum of files, which holds while their stamp is the same."""

    stamp: list[object]
    digest: str


class DecisionCache:
    """In a folder of `cache`. Raises: nothing; without a `cache`, or one that may be used, nothing is kept."""

    def __init__(self, cache: Path | None) -> None:
        self._folder = None if cache is None else cache / ENGINES_FOLDER

    @property
    def is_empty(self) -> bool:
        """Nothing was ever kept, so it need not be asked. Cost: one look at the disk."""
        return self._folder is None or not self._folder.is_dir()

    def find(self, key: str) -> Decision | None:
        return self._read(f"{key}.json", Decision)

    def keep(self, key: str, decision: Decision) -> None:
        self._write(f"{key}.json", decision)

    def forget(self, key: str) -> None:
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / f"{key}.json").unlink(missing_ok=True)

    def load_mark(self, key: str) -> LoadMark:
        """For loads of the engine that won."""
        return LoadMark(None if self._folder is None else self._folder / f"{key}.loading")

    def find_digest(self, name: str) -> FileDigest | None:
        return self._read(f"{name}.digest", FileDigest)

    def keep_digest(self, name: str, digest: FileDigest) -> None:
        self._write(f"{name}.digest", digest)

    def _read(self, name: str, kind: type[Kept]) -> Kept | None:
        if self._folder is None or self.is_empty:
            return None
        try:
            path = private_folder(self._folder) / name
            with path.open("rb") as file:
                kept = msgspec.json.decode(file.read(_MOST_BYTES), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("what was decided about engines cannot be read, so it is decided again: %s: %s", name, error)
            return None
        with suppress(OSError):  # a cache that is read-only serves as well
            os.utime(path)
        return kept

    def _write(self, name: str, kept: Decision | FileDigest) -> None:
        if self._folder is None:
            return
        try:
            folder = private_folder(self._folder)
            spare = folder / f"{name}.{os.getpid()}.{os.urandom(4).hex()}"
            try:
                spare.write_bytes(msgspec.json.encode(kept))
                spare.replace(folder / name)
            finally:
                spare.unlink(missing_ok=True)
            self._make_room(folder)
        except OSError as error:
            reason = error.strerror or error
            log.warning("what is decided about engines cannot be kept: %s (server.cache_dir)", reason)

    @staticmethod
    def _make_room(folder: Path) -> None:
        files = list(folder.iterdir())
        if len(files) > _MOST_FILES:
            files.sort(key=lambda file: file.lstat().st_mtime_ns)
            for file in files[: len(files) - _MOST_FILES]:
                file.unlink(missing_ok=True)

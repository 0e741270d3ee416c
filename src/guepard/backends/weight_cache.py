"""Copies of models in a form that is quick to load and that processes share, kept between runs.

    <folder>/<key>/manifest.json   sizes and checksums of the other files, and what the copy was made of
                   stamps.json     what was looked at and found right, so that it need not be read again
                   model.onnx ...  whatever the maker wrote
             <key>.lock            held while a copy is made
             <key>.*.partial/      a copy in the making

A copy is written into a folder of its own and renamed when it is whole, so there are no halves to be found; a maker
that dies leaves a partial folder, which the next one removes. Whoever uses a copy holds a shared lock on its manifest.
When room is needed, copies go that nobody uses, the one that was not used for longest first.
"""

import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import ENOSPC
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from guepard.backends.file_stamp import Stamp, is_settled, stamp

log = logging.getLogger(__name__)

WEIGHTS_FOLDER = "weights"
"""Of `server.cache_dir`."""

MAX_BYTES = 16 << 30
"""Of all copies together."""

_MANIFEST, _STAMPS = "manifest.json", "stamps.json"
_LOCK, _PARTIAL = ".lock", ".partial"
_SOURCES = 8  # places of one model that are remembered for a copy
_SPARE_BYTES = 256 << 20  # of the disk, for others
_LOCK_POLL_S = 0.02
_LOCK_PATIENCE_S = 60.0
_CHUNK = 1 << 20


class Source:
    """The files that make up one model, and how the copy is to be made: an engine, a CPU, options."""

    def __init__(self, files: Sequence[Path], recipe: str) -> None:
        self._files = [file.resolve() for file in files]
        self.recipe = recipe
        self.stamp = stamp(self._files)
        self.size_bytes = sum(file.stat().st_size for file in self._files)
        self._key = ""

    @property
    def key(self) -> str:
        """Cost: reads every file, the first time."""
        if not self._key:
            digest = sha256(self.recipe.encode())
            for file in self._files:
                with file.open("rb") as data:
                    digest.update(file_digest(data, "sha256").digest())
            self._key = digest.hexdigest()[:40]
        return self._key

    def check_unchanged(self) -> None:
        """Raises: OSError when a file was written since."""
        if stamp(self._files) != self.stamp:
            raise OSError("the model changed while a copy of it was made")

    @property
    def is_settled(self) -> bool:
        return is_settled(self._files)


class Copy:
    """A whole copy in use. It stays on disk until `release`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock

    @property
    def is_in_place(self) -> bool:
        """Whether it is still what lies in `folder`: it may have been removed and made anew. Raises: OSError."""
        return os.fstat(self._lock).st_ino == (self.folder / _MANIFEST).stat().st_ino

    def release(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def __del__(self) -> None:
        self.release()


class WeightCache:
    """`folder` is private to its user: see private_folder."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def find(self, source: Source) -> Copy | None:
        """The copy of `source`, if there is one; one that is damaged is removed.

        Cost: reads nothing but manifests where source and copy are as they were when they were last looked at.
        """
        for folder in self._copies():
            manifest, stamps = _read(folder / _MANIFEST), _read(folder / _STAMPS)
            if manifest.get("recipe") != source.recipe or manifest.get("source_bytes") != source.size_bytes:
                continue
            if source.stamp in _sources(stamps) or folder.name == source.key:
                return self._open(folder.name, source)
        return None

    def make(self, source: Source, size_bytes: int, write: Callable[[Path], None]) -> Copy:
        """As `find`, but where there is none, `write` puts its files, about `size_bytes`, into an empty folder.

        Of several who make the same copy at once one does, and the others wait for it.
        Raises: OSError, and whatever `write` raises; nothing is left behind then.
        """
        with self._making(source.key):
            found = self._open(source.key, source)
            if found is not None:
                return found
            self._make_room(size_bytes)
            partial = Path(mkdtemp(dir=self._folder, prefix=f"{source.key}.", suffix=_PARTIAL))
            try:
                write(partial)
                source.check_unchanged()
                files = {file.name: [file.stat().st_size, _checksum(file)] for file in partial.iterdir()}
                for name in files:  # whoever writes to a mapped file changes answers, or ends the process
                    (partial / name).chmod(0o400)
                manifest = {"recipe": source.recipe, "source_bytes": source.size_bytes, "files": files}
                (partial / _MANIFEST).write_text(json.dumps(manifest))
                partial.rename(self._folder / source.key)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
            made = self._open(source.key, source)
            if made is None:
                raise OSError("the copy did not outlive its making")
            return made

    def discard(self, copy: Copy) -> None:
        """Remove a copy that turned out to be useless, not one that took its place meanwhile. Whoever has it mapped
        keeps it."""
        try:
            if copy.is_in_place:
                self._remove(copy.folder)
        except OSError:
            return  # somebody else was quicker
        finally:
            copy.release()

    def _open(self, key: str, source: Source) -> Copy | None:
        folder = self._folder / key
        try:
            lock = os.open(folder / _MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        copy = Copy(folder, lock)
        try:
            flock(lock, LOCK_SH | LOCK_NB)
            if not copy.is_in_place:
                return None  # removed, and made anew, between two of these lines
        except OSError:
            return None
        if not self._check(folder, source):
            log.warning("the copy of a model in %s is damaged, so it is removed", folder)
            self.discard(copy)
            return None
        return copy

    def _check(self, folder: Path, source: Source) -> bool:
        """Whether the files are those that were written. What took long to find out is noted."""
        try:
            expected: dict[str, list[int]] = _read(folder / _MANIFEST)["files"]
            files = [folder / name for name in expected]
            now = stamp(files)
            if [file.stat().st_size for file in files] != [size for size, _ in expected.values()]:
                return False
            stamps = _read(folder / _STAMPS)
            if now != stamps.get("files"):
                if [_checksum(file) for file in files] != [checksum for _, checksum in expected.values()]:
                    return False
                stamps["files"] = now if is_settled(files) else None
        except (OSError, KeyError, TypeError, ValueError):
            return False
        self._note(folder, stamps, source)
        return True

    def _note(self, folder: Path, stamps: dict[str, Any], source: Source) -> None:
        """Write down what is known now, and that the copy was used. In a cache that cannot be written: nothing."""
        sources: list[Stamp] = _sources(stamps)
        if source.stamp not in sources and source.is_settled:
            sources = [*sources, source.stamp][-_SOURCES:]
        noted = {"files": stamps.get("files"), "sources": sources}
        try:
            if noted != _read(folder / _STAMPS):
                new = folder / f"{_STAMPS}.{os.getpid()}.{time.monotonic_ns()}"
                new.write_text(json.dumps(noted))
                new.rename(folder / _STAMPS)
            os.utime(folder)
        except OSError:
            return

    def _copies(self) -> list[Path]:
        """Folders of copies, the one that was not used for longest first."""
        found = []
        for folder in self._folder.iterdir():
            if not folder.suffix:
                try:
                    found.append((folder.lstat().st_mtime_ns, folder))
                except OSError:
                    continue
        return [folder for _, folder in sorted(found)]

    def _make_room(self, size_bytes: int) -> None:
        """Raises: OSError when even without the copies that nobody uses there is not enough."""
        for partial in self._folder.glob(f"*{_PARTIAL}"):
            self._remove_deserted(partial)
        sizes = {folder: _size_bytes(folder) for folder in self._copies()}
        for folder, size in sizes.items():
            if self._fits(sum(sizes.values()) + size_bytes, size_bytes):
                return
            if self._evict(folder):
                sizes[folder] -= size
        if not self._fits(sum(sizes.values()) + size_bytes, size_bytes):
            raise OSError(ENOSPC, f"no room for {size_bytes >> 20} MiB in {self._folder}")

    def _fits(self, total_bytes: int, new_bytes: int) -> bool:
        return total_bytes <= self._max_bytes and new_bytes + _SPARE_BYTES <= shutil.disk_usage(self._folder).free

    def _evict(self, folder: Path) -> bool:
        try:
            lock = os.open(folder / _MANIFEST, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return self._remove(folder)  # without a manifest it is of no use to anybody
        try:
            flock(lock, LOCK_EX | LOCK_NB)
            folder.with_suffix(_LOCK).unlink(missing_ok=True)
            return self._remove(folder)
        except OSError:
            return False
        finally:
            os.close(lock)

    def _remove(self, folder: Path) -> bool:
        """Out of everybody's sight first, so that nobody finds half of it."""
        gone = Path(mkdtemp(dir=self._folder, prefix=f"{folder.name}.", suffix=_PARTIAL))
        try:
            folder.rename(gone)
        except OSError:
            gone.rmdir()
            return False
        shutil.rmtree(gone, ignore_errors=True)
        return True

    def _remove_deserted(self, partial: Path) -> None:
        """Remove what a maker left that died. One that lives holds its lock."""
        key = partial.name.partition(".")[0]
        try:
            lock = os.open(self._folder / f"{key}{_LOCK}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            return
        try:
            flock(lock, LOCK_EX | LOCK_NB)
            shutil.rmtree(partial, ignore_errors=True)
        except OSError:
            return
        finally:
            os.close(lock)

    @contextmanager
    def _making(self, key: str) -> Iterator[None]:
        """Alone, among threads and processes, in making the copy `key`. Raises: OSError after a minute of waiting."""
        lock = os.open(self._folder / f"{key}{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + _LOCK_PATIENCE_S
            while True:
                try:
                    flock(lock, LOCK_EX | LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise TimeoutError("another process has been making the copy for a minute") from None
                    time.sleep(_LOCK_POLL_S)
            for partial in self._folder.glob(f"{key}.*{_PARTIAL}"):
                shutil.rmtree(partial, ignore_errors=True)
            yield
        finally:
            os.close(lock)


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is none that can be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _sources(stamps: dict[str, Any]) -> list[Any]:
    """The stamps of models that were found right; none where what is written is no list."""
    sources = stamps.get("sources")
    return sources if isinstance(sources, list) else []


def _checksum(file: Path) -> int:
    """Against accidents: against others it is the folder's permissions that help."""
    checksum = 0
    with file.open("rb") as data:
        while chunk := data.read(_CHUNK):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _size_bytes(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.iterdir())

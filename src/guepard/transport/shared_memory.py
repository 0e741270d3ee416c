"""System shared memory that clients register: read and written through descriptors, never mapped.

Whoever maps another process's memory dies of SIGBUS when that process truncates it. A descriptor answers with fewer
bytes instead, and what was read is a copy that nobody else can change (ADR 0010).

Which objects a client may name: one component below /dev/shm that begins with an allowed prefix. It is opened without
following a link and must be a plain file.
"""

import errno
import os
import resource
import stat
import weakref
from collections.abc import Sequence
from reprlib import repr as shortened
from typing import Any, NoReturn

import numpy as np

from guepard.core.errors import GuepardError, InputError, InternalError, NotFound, Overloaded, PermissionDenied
from guepard.core.regions import MAX_REGION_NAME

_FOLDER = "/dev/shm"  # noqa: S108 (where shm_open puts them)
_MAX_REGIONS = 1_024
_MAX_KEY_BYTES = 255
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NO_OBJECT_ERRORS = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV})


class _Region:
    """`offset` counts from the start of the object.

    Ownership: the descriptor closes with the last reference, so that it stays open under whoever is reading from it
    on another thread while the region is unregistered.
    """

    __slots__ = ("__weakref__", "byte_size", "descriptor", "key", "name", "offset")

    def __init__(self, name: str, key: str, offset: int, byte_size: int, descriptor: int) -> None:
        self.name = name
        self.key = key
        self.offset = offset
        self.byte_size = byte_size
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def start(self, offset: int, size: int) -> int:
        """Where in the object the `size` bytes at `offset` begin. Raises: InputError when they are not there."""
        if offset < 0 or size < 0 or offset + size > self.byte_size:
            raise InputError(
                f"shared memory region {self.name!r} has {self.byte_size} bytes; "
                f"{size} bytes at offset {offset} lie outside it"
            )
        start = self.offset + offset
        length = os.fstat(self.descriptor).st_size
        if start + size > length:
            self.cut_short(length)
        return start

    def cut_short(self, length: int) -> NoReturn:
        raise InputError(
            f"shared memory region {self.name!r} was registered with {self.byte_size} bytes at offset {self.offset} of "
            f"its object, which has been truncated to {length} bytes since"
        )


class SharedMemory:
    """The RegionRegistry of a server that allows keys with one of `prefixes`."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._prefixes = tuple(prefix.removeprefix("/") for prefix in prefixes)
        self._regions: dict[str, _Region] = {}
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Three in four descriptors are left to connections and models.
        self._limit = _MAX_REGIONS if descriptors == resource.RLIM_INFINITY else min(_MAX_REGIONS, descriptors // 4)

    # Management

    def status(self, name: str | None) -> dict[str, dict[str, Any]]:
        regions = list(self._regions.values()) if name is None else [self._find(name)]
        return {
            region.name: {
                "name": region.name,
                "key": region.key,
                "offset": region.offset,
                "byte_size": region.byte_size,
            }
            for region in regions
        }

    def register(self, name: object, key: object, offset: object, byte_size: object) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= MAX_REGION_NAME or not name.isprintable():
            raise InputError(f"region name: expected 1 to {MAX_REGION_NAME} printable characters")
        object_name = self._allowed(key)
        start = _whole("offset", offset, 0)
        size = _whole("byte_size", byte_size, 1)
        if name in self._regions:
            raise InputError(f"shared memory region {name!r} already in manager; unregister it first")
        if len(self._regions) >= self._limit:
            raise Overloaded(f"{len(self._regions)} shared memory regions are registered and no more may be")
        descriptor = _open(object_name)
        try:
            _check_object(object_name, os.fstat(descriptor), start, size)
        except BaseException:
            os.close(descriptor)
            raise
        self._regions[name] = _Region(name, str(key), start, size, descriptor)

    def unregister(self, name: str | None) -> None:
        if name is None:
            self._regions.clear()
        else:
            self._regions.pop(name, None)

    def _allowed(self, key: object) -> str:
        """The object's name in its folder. Raises: InputError, PermissionDenied."""
        if not isinstance(key, str):
            raise InputError("key: expected the name of a shared memory object as text")
        name = key.removeprefix("/")
        if name in ("", ".", "..") or "/" in name or not name.isprintable() or len(os.fsencode(name)) > _MAX_KEY_BYTES:
            raise InputError(
                f"key {key[:64]!r}: expected one name of 1 to {_MAX_KEY_BYTES} printable bytes, "
                "with nothing but a slash before it"
            )
        if not name.startswith(self._prefixes):
            raise PermissionDenied(
                f"key {key!r} begins with no prefix that this server allows; name one with --allow-client-shm PREFIX"
            )
        return name

    def _find(self, name: str) -> _Region:
        region = self._regions.get(name)
        if region is None:
            raise NotFound(f"no shared memory region {name[:MAX_REGION_NAME]!r} is registered")
        return region

    # Use, from any thread

    def check(self, region: str, offset: int, size: int) -> None:
        self._find(region).start(offset, size)

    def read(self, region: str, offset: int, size: int) -> memoryview:
        found = self._find(region)
        start = found.start(offset, size)
        copy = np.empty(size, np.uint8).data
        done = 0
        while done < size:  # the kernel moves at most 2 GiB at once
            try:
                count = os.preadv(found.descriptor, [copy[done:]], start + done)
            except OSError as error:
                raise _failure("read", region, error) from None
            if not count:
                found.cut_short(os.fstat(found.descriptor).st_size)
            done += count
        return copy.toreadonly()

    def write(self, region: str, offset: int, data: bytes | memoryview) -> None:
        found = self._find(region)
        view = memoryview(data)
        start = found.start(offset, view.nbytes)
        while view.nbytes:
            try:
                count = os.pwritev(found.descriptor, [view], start)
            except OSError as error:
                raise _failure("written", region, error) from None
            start += count
            view = view[count:]


def _open(name: str) -> int:
    try:
        return os.open(f"{_FOLDER}/{name}", _FLAGS)
    except FileNotFoundError:
        raise InputError(f"key {name!r}: there is no such shared memory object") from None
    except PermissionError:
        raise PermissionDenied(f"key {name!r}: the server may not read and write this object") from None
    except OSError as error:
        if error.errno in _NO_OBJECT_ERRORS:
            raise InputError(f"key {name!r}: not a shared memory object") from None
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise Overloaded("the server has no file descriptor left for another region") from None
        raise InputError(f"key {name!r}: cannot be opened ({error.strerror})") from None


def _check_object(name: str, found: os.stat_result, offset: int, byte_size: int) -> None:
    """Raises: InputError unless it is a plain file that holds these bytes."""
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"key {name!r}: not a shared memory object")
    if offset + byte_size > found.st_size:
        raise InputError(
            f"key {name!r} holds {found.st_size} bytes; offset {offset} and byte_size {byte_size} reach beyond them"
        )


def _whole(field: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        raise InputError(f"{field}: expected a whole number of {least} or more, got {shortened(value)}")
    return value


def _failure(verb: str, region: str, error: OSError) -> GuepardError:
    if error.errno == errno.ENOSPC:
        return InputError(f"shared memory region {region!r} cannot be written: no memory is left for its object")
    return InternalError(f"shared memory region {region!r} cannot be {verb} ({error.strerror})")

"""Shared memory objects as clients make them, gone with the test whatever becomes of it."""

import os
import secrets
from pathlib import Path

FOLDER = Path("/dev/shm")
PREFIX = "guepard-test-"


def unique_name(prefix: str = PREFIX) -> str:
    return f"{prefix}{os.getpid()}-{secrets.token_hex(6)}"


class SharedObject:
    """A plain file of `size` zeros below /dev/shm, as shm_open and ftruncate make it."""

    def __init__(self, size: int, prefix: str = PREFIX) -> None:
        self.key = unique_name(prefix)
        self.path = FOLDER / self.key
        self.path.touch(mode=0o600, exist_ok=False)
        self.truncate(size)

    def __enter__(self) -> "SharedObject":
        return self

    def __exit__(self, *details: object) -> None:
        self.path.unlink(missing_ok=True)

    def truncate(self, size: int) -> None:
        os.truncate(self.path, size)

    def put(self, data: bytes, offset: int = 0) -> None:
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def get(self, size: int, offset: int = 0) -> bytes:
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

"""Shared memory regions, as far as whoever reads and writes tensors in them has to know them."""

from typing import Any, NoReturn, Protocol

from guepard.core.errors import PermissionDenied

MAX_REGION_NAME = 256

NO_CUDA = (
    "CUDA shared memory is not served: tensors are read and written by the CPU; "
    "use system shared memory or send the data in the request"
)


class Regions(Protocol):
    """Regions by name. Offsets count from the start of the region. May be called from any thread.

    Every method raises GuepardError that names the region: NotFound when there is none of that name, InputError when
    the bytes lie outside it or its object has been cut short since it was registered.
    """

    def check(self, region: str, offset: int, size: int) -> None:
        """Whether `size` bytes could be read or written now."""
        ...

    def read(self, region: str, offset: int, size: int) -> memoryview:
        """A private, read-only copy of `size` bytes. Cost: one copy."""
        ...

    def write(self, region: str, offset: int, data: bytes | memoryview) -> None:
        """Cost: one copy."""
        ...


class RegionRegistry(Regions, Protocol):
    """Regions that clients register. Called on the event loop's thread."""

    def status(self, name: str | None) -> dict[str, dict[str, Any]]:
        """`name`, `key`, `offset` and `byte_size` of one region, or of all, by name. Raises: NotFound."""
        ...

    def register(self, name: object, key: object, offset: object, byte_size: object) -> None:
        """Values are as the client sent them. Raises: InputError, PermissionDenied, Overloaded."""
        ...

    def unregister(self, name: str | None) -> None:
        """Forget one region, or all. One that is not there is none to forget."""
        ...


class _NotAllowed:
    """The registry of a server that lets no client register anything."""

    def status(self, name: str | None) -> dict[str, dict[str, Any]]:
        self._refuse()

    def register(self, name: object, key: object, offset: object, byte_size: object) -> None:
        self._refuse()

    def unregister(self, name: str | None) -> None:
        self._refuse()

    def check(self, region: str, offset: int, size: int) -> None:
        self._refuse()

    def read(self, region: str, offset: int, size: int) -> memoryview:
        self._refuse()

    def write(self, region: str, offset: int, data: bytes | memoryview) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise PermissionDenied(
            "shared memory is off: send the data in the request, or start the server with --allow-client-shm PREFIX"
        )


NOT_ALLOWED: RegionRegistry = _NotAllowed()

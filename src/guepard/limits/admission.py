"""Permits for request bodies, taken when the headers are known and before the body is read."""

from guepard.core.errors import GuepardError, Overloaded, PayloadTooLarge

_RETRY_AFTER_MS = 1_000


class Admission:
    """Bounds the bytes of all request bodies that are being received or worked on."""

    __slots__ = ("inflight_bytes", "max_inflight_bytes")

    def __init__(self, max_inflight_bytes: int) -> None:
        self.max_inflight_bytes = max_inflight_bytes
        self.inflight_bytes = 0

    def acquire(self, size: int, held: int = 0) -> None:
        """Take a permit for `size` bytes, of a body that holds permits for `held` bytes already.

        Raises: Overloaded, or PayloadTooLarge for what would not fit even alone; then nothing was taken.
        """
        total = self.inflight_bytes + size
        if total > self.max_inflight_bytes:
            raise self._refusal(size, held)
        self.inflight_bytes = total

    def hold(self, size: int) -> None:
        """Count `size` bytes that are there already, whatever the bound: answers that clients do not read."""
        self.inflight_bytes += size

    def release(self, size: int) -> None:
        self.inflight_bytes -= size

    def _refusal(self, size: int, held: int) -> GuepardError:
        if held + size > self.max_inflight_bytes:
            return PayloadTooLarge(
                f"a request body of {held + size} bytes or more exceeds {self.max_inflight_bytes} bytes, the bound for "
                "all requests together (max_inflight_bytes)"
            )
        return Overloaded(
            f"{self.inflight_bytes} bytes of requests are in flight and {size} more exceed the bound of "
            f"{self.max_inflight_bytes}; try again later, or raise max_inflight_bytes",
            retry_after_ms=_RETRY_AFTER_MS,
        )

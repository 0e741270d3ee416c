"""One wide execution at a time: two that take all CPUs each would only be in each other's way."""


class WidePermit:
    """Belongs to the event loop's thread. All models of a server share one."""

    __slots__ = ("is_taken",)

    def __init__(self) -> None:
        self.is_taken = False

    def try_acquire(self) -> bool:
        if self.is_taken:
            return False
        self.is_taken = True
        return True

    def release(self) -> None:
        self.is_taken = False

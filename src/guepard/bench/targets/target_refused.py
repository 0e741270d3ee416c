"""The one error of a target that is there to be measured and cannot be."""


class TargetRefused(Exception):
    """Unreachable, unwilling, or answering with something else than what is measured. `str(error)` says what to do.

    The usage was right and the work failed, so the exit code is 1, not 2. `may_pass`: another request may fare better.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass

"""The one error of a target that is there to be measured and cannot be."""


class TargetRefused(Exception):
    """Unreachable, unwilling, or answering with something else than what is measured. `str(error)` says what to do.

    The usage was right and the work failed, so the exit code is 1, not 2.
    """

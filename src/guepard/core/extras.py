"""Parts of the package that are installed only where they are wanted."""

from guepard.core.errors import LoadError


def missing_extra(extra: str, what: str) -> LoadError:
    """The error for `what`, which needs packages that `guepard[extra]` would have brought."""
    return LoadError(f"{what} needs packages that are not installed; install them: pip install 'guepard[{extra}]'")


def broken_extra(extra: str, what: str, error: BaseException) -> LoadError:
    """The error for `what`, whose packages are there and fail when they are imported."""
    return LoadError(
        f"{what} is installed, but importing it failed ({type(error).__name__}; the server's log says more); install "
        f"it anew: pip install --force-reinstall 'guepard[{extra}]'"
    )

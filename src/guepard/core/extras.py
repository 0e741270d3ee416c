"""Parts of the package that are installed only where they are wanted."""

from guepard.core.errors import LoadError


def missing_extra(extra: str, what: str) -> LoadError:
    """The error for `what`, which needs packages that `guepard[extra]` would have brought."""
    return LoadError(f"{what} needs packages that are not installed; install them: pip install 'guepard[{extra}]'")

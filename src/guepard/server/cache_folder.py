"""Where the server keeps what is worth keeping between runs."""

import os
from pathlib import Path

from guepard.backends.private_folder import private_folder
from guepard.backends.weight_cache import WEIGHTS_FOLDER
from guepard.core.errors import ConfigurationError
from guepard.core.model_config import Profile


def cache_folder(cache_dir: str | None, profile: Profile) -> Path | None:
    """None where nothing is kept. A folder that nobody asked for is looked at when there is something to keep.

    Raises: ConfigurationError for one that was asked for and cannot be used.
    """
    if cache_dir == "none":
        return None
    if cache_dir is None:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "guepard")
    folder = Path(cache_dir)
    if profile == "standard":  # the other keeps nothing
        _check(folder)
    return folder


def _check(folder: Path) -> None:
    try:
        private_folder(folder / WEIGHTS_FOLDER)
    except (OSError, ValueError) as error:
        reason = f"{error.strerror}: {folder}" if isinstance(error, OSError) and error.strerror else error
        raise ConfigurationError(
            f"server.cache_dir: {reason} (write a folder of this user's, or none to keep nothing)"
        ) from None

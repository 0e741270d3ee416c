"""Files beside a model that an option names."""

from pathlib import Path

from guepard.core.errors import LoadError


def model_file(folder: Path, name: str, option: str) -> Path:
    """The file `name` in the model's `folder`, which neither `..` nor a link may leave.

    Raises: LoadError that names the option.
    """
    path = folder / name
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        is_inside = False
    if not name or Path(name).is_absolute() or not is_inside:
        raise LoadError(f"{option}: {name!r} is not in the model's folder; put the file there and write its name")
    if not path.is_file():
        raise LoadError(f"{option}: there is no file {name!r} in the model's folder")
    return path

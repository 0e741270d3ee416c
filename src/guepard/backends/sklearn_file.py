"""Files that hold estimators of scikit-learn: pickles, by pickle or joblib, and skops files."""

import logging
import pickle
import warnings
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

from guepard.backends.base import ModelSource
from guepard.backends.extras import missing_extra
from guepard.core.errors import LoadError

_LOGGER = logging.getLogger("guepard.backends.sklearn")

PICKLES = (".joblib", ".pkl", ".pickle")
SKOPS = ".skops"
MODEL_FILES = tuple(f"model{suffix}" for suffix in (*PICKLES, SKOPS))

_SHOWN_TYPES = 8


class Loaded(NamedTuple):
    """`fitted_with` is the version of scikit-learn that made it, if it is another one than that which is installed."""

    estimator: Any
    fitted_with: str


def model_file(path: Path) -> Path:
    """The file that is `path`, or the one that lies in it. Raises: LoadError."""
    if path.is_dir():
        found = [name for name in MODEL_FILES if (path / name).is_file()]
        if len(found) != 1:
            what = f"holds {' and '.join(found)}; remove one" if found else f"holds none of {', '.join(MODEL_FILES)}"
            raise LoadError(f"the folder {what}, or serve the file itself")
        path = path / found[0]
    if not path.is_file():
        raise LoadError(f"there is no file {path.name}")
    return path


def require_trust(file: Path, *, trusted: bool) -> None:
    """Without having read it. Raises: LoadError."""
    if file.suffix.lower() != SKOPS and not trusted:
        raise LoadError(
            f"{file.name} is a pickle, and loading it runs whatever code it names; save the model with skops.io.dump "
            "as a .skops file, which is read as data, or start with --trust or set trust: true if you trust it"
        )


def load_estimator(file: Path, *, trusted: bool) -> Loaded:
    """What the file holds, which is fitted to nothing yet that is known. Runs code for a trusted source.

    Raises: LoadError.
    """
    require_trust(file, trusted=trusted)
    try:
        import joblib
        from sklearn.base import BaseEstimator
        from sklearn.exceptions import InconsistentVersionWarning
    except ImportError:
        raise missing_extra("sklearn", "a model of scikit-learn") from None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InconsistentVersionWarning)
        try:
            estimator = _read_skops(file, trusted) if file.suffix.lower() == SKOPS else joblib.load(file)
        except LoadError:
            raise
        except ModuleNotFoundError as error:
            raise LoadError(
                f"{file.name} needs the module {error.name!r}, which is not installed here; install it, or save the "
                "model without classes of your own"
            ) from None
        except (Exception, SystemExit) as error:  # a pickle may raise anything
            _LOGGER.warning("%s could not be loaded", file.name, exc_info=True)
            raise LoadError(_damaged(file, error)) from None
    if not isinstance(estimator, BaseEstimator) and not hasattr(estimator, "predict"):
        raise LoadError(
            f"{file.name} holds a {type(estimator).__name__}, which is no estimator; dump the fitted estimator or "
            "pipeline alone"
        )
    versions = [
        str(warning.message.original_sklearn_version)
        for warning in caught
        if isinstance(warning.message, InconsistentVersionWarning)
    ]
    return Loaded(estimator, versions[0] if versions else "")


def _damaged(file: Path, error: BaseException) -> str:
    if isinstance(error, AttributeError | ImportError):
        return (
            f"{file.name} needs something that is not there: {error}; install the versions that it was made with, or "
            "save the model without classes and functions of your own"
        )
    if isinstance(error, EOFError | pickle.UnpicklingError | BadZipFile | ValueError | KeyError | IndexError | OSError):
        return f"{file.name} is damaged, cut off, or no pickle at all ({type(error).__name__})"
    return f"loading {file.name} failed: {type(error).__name__}"


def _read_skops(file: Path, trusted: bool) -> Any:
    try:
        from skops import io
    except ImportError:
        raise missing_extra("sklearn", "a .skops file") from None
    others = io.get_untrusted_types(file=file)
    if others and not trusted:
        shown = ", ".join(others[:_SHOWN_TYPES]) + (", …" if len(others) > _SHOWN_TYPES else "")
        raise LoadError(
            f"{file.name} holds types that may run code when they are made: {shown}; start with --trust or set trust: "
            "true if you trust them"
        )
    return io.load(file, trusted=others)


def source_file(source: ModelSource) -> Path:
    """Of a source that may be loaded at all. Raises: LoadError."""
    file = model_file(source.path)
    require_trust(file, trusted=source.trusted)
    return file

"""OpenVINO's failures in words that a client may read. The full text goes to the log, by whoever raises.

Its exceptions are all of one class, and name source files, conditions and inner nodes. What a request may be to blame
for is told by the words alone: sizes that do not fit each other.
"""

import re
from pathlib import Path

from guepard.core.errors import GuepardError, InputError, LoadError, ModelError

_SHAPES = re.compile(r"shape|dimension|\bdims?\b|broadcast|incompatible|\brank\b|reshape", re.IGNORECASE)
_OPERATOR = re.compile(r"No conversion rule found for operations: ([^\n]+)")
_PROPERTY = re.compile(r"Wrong value .*?for property key [^\n]*")
_CANCELLED = "was canceled"


def is_cancelled(error: Exception) -> bool:
    return _CANCELLED in str(error)


def run_error(error: Exception, model: str, *, shapes_are_free: bool) -> GuepardError:
    """What the client is told of a failed run."""
    if shapes_are_free and _SHAPES.search(str(error)):
        return InputError(f"model {model!r} cannot take inputs of these shapes: they do not fit one another inside it")
    return ModelError(f"model {model!r} failed in its engine; the server's log says why")


def instead(path: Path) -> str:
    """The first thing to advise: another engine, for models that one takes."""
    return "use engine: onnxruntime, or " if path.suffix == ".onnx" else ""


def load_error(error: Exception, path: Path) -> LoadError:
    """Why a file was refused, without paths and source lines."""
    wrong = _PROPERTY.search(str(error))
    if wrong is not None:
        return LoadError(f"openvino.properties: {wrong[0]}")
    found = _OPERATOR.search(str(error))
    if found is not None:
        advice = f"{instead(path)}export it with operators that it has"
        return LoadError(f"OpenVINO does not have an operator that {path.name} uses: {found[1]}; {advice}")
    if path.suffix == ".onnx":
        return LoadError(
            f"OpenVINO refuses {path.name}; the server's log says why, and engine: onnxruntime may take it"
        )
    files = f"{path.name} or {path.with_suffix('.bin').name}"
    return LoadError(
        f"OpenVINO refuses {path.name}: {files} is damaged, cut short or of a newer version; the log says why"
    )

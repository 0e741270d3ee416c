"""ONNX Runtime's failures in words that a client may read.

Its texts mix what helps ("indices element out of data bounds, idx=99 …") with source locations, C++ signatures, file
paths and names of inner nodes. Here the helpful part is cut out; the full text goes to the log, by whoever raises.

Whose fault a failed run is:
- INVALID_ARGUMENT is the caller's. The model has proved at warm-up that it runs, so what its kernels reject as an
  argument (an index beyond the vocabulary) came with the request.
- Shapes that do not fit one another inside the model are the caller's when the model leaves the caller a choice of
  shape, i.e. when an input has a free dimension besides the batch.
- Everything else (out of memory, a kernel that is missing) is the model's or the server's.
"""

import re
from pathlib import Path

from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, InvalidProtobuf

from guepard.core.errors import GuepardError, InputError, LoadError, ModelError

_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_LOADING = re.compile(r"^Load model from .*? failed: ?")
_NODE = re.compile(r"^Non-zero status code returned while running .*? Status Message: ", re.DOTALL)
_SOURCE = re.compile(r"\S+\.(?:h|cc|cpp):\d+ ")
_SIGNATURE = re.compile(r"^(?:[^()]*\([^()]*\)(?: const)?(?: \[with [^\]]*\])?|\w+) ")
_CONDITION = re.compile(r"^.* was false\. ?", re.DOTALL)
_ADVICE = re.compile(r"\s*Please fix either the inputs(?:/outputs)? or the model\.")
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s\"'/]+/)+")
_INTERNALS = re.compile(r"::|\S/\S+/|\.(?:h|cc|cpp)\b|\bnode\b")
_SHAPES = re.compile(r"shape|dimension|broadcast|\brank\b|\baxis\b", re.IGNORECASE)
_TOO_NEW = re.compile(r"(?:Opset (\d+) is under .* till opset|Unsupported model (IR) version: (\d+), max .*:) (\d+)")
_UNKNOWN_OPERATOR = re.compile(r"not a registered|No Op registered|no kernel|Could not find an implementation", re.I)


def run_error(error: Exception, model: str, *, shapes_are_free: bool) -> GuepardError:
    """What the client is told of a failed run."""
    reason = _reason(str(error))
    if isinstance(error, InvalidArgument):
        return InputError(f"model {model!r} refuses the input: {_public(reason)}")
    if shapes_are_free and _SHAPES.search(reason):
        return InputError(f"model {model!r} cannot take inputs of these shapes: {_public(reason)}")
    return ModelError(f"model {model!r} failed in its engine; the server's log says why")


def load_error(error: Exception, path: Path) -> LoadError:
    """Why a file was refused, without the server's paths."""
    if isinstance(error, InvalidProtobuf):
        return LoadError(f"{path.name} is not a valid ONNX model: the file is damaged or of another format")
    text = _without_source(_LOADING.sub("", _PREFIX.sub("", str(error))))
    for folder in (path.parent.absolute(), path.parent.resolve()):
        text = text.replace(f"{folder}/", "")
    text = " ".join(_FOLDERS.sub("", text).split())
    newer = _TOO_NEW.search(text)
    if newer is not None:
        kind, asked = ("IR version", newer[3]) if newer[2] else ("opset", newer[1])
        return LoadError(
            f"{path.name} has {kind} {asked}, and this ONNX Runtime knows those up to {newer[4]}; export the model "
            "with one of them, or install a newer ONNX Runtime (pip install -U onnxruntime)"
        )
    if _UNKNOWN_OPERATOR.search(text):
        return LoadError(
            f"{path.name} uses an operator that this ONNX Runtime does not have, and libraries of custom operators are "
            f"never loaded; export the model with standard operators: {text}"
        )
    return LoadError(f"ONNX Runtime refuses {path.name}: {text}")


def _reason(text: str) -> str:
    text = _without_source(_NODE.sub("", _PREFIX.sub("", text)))
    return " ".join(_ADVICE.sub("", text).split())


def _without_source(text: str) -> str:
    """`text` without the file, the function and the condition of ONNX Runtime's source that some begin with."""
    located = _SOURCE.match(text)
    if located is None:
        return text
    text = text[located.end() :]
    return _CONDITION.sub("", text) if _CONDITION.match(text) else _SIGNATURE.sub("", text)


def _public(reason: str) -> str:
    """`reason`, unless something of the engine's insides is left in it."""
    if not reason or _INTERNALS.search(reason):
        return "a value or a shape is outside of what its operators accept"
    return reason

"""The request in a model folder's sample.json: what its author shows as a good question."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson

from guepard.core.tensor import Array, TensorSpec

SAMPLE_FILE = "sample.json"
_MAX_SAMPLE_BYTES = 65_536


def read_sample(folder: Path) -> dict[str, Any] | None:
    """A V2 request as JSON, with `inputs`; None where there is none that can be read.

    It is shown to people, so a link out of the folder is not followed.
    """
    path = folder / SAMPLE_FILE
    try:
        if not (path.is_file() and path.resolve().is_relative_to(folder.resolve())):
            return None
        if path.stat().st_size > _MAX_SAMPLE_BYTES:
            return None
        document = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and isinstance(document.get("inputs"), list) else None


def sample_arrays(document: dict[str, Any], specs: tuple[TensorSpec, ...]) -> list[Array] | None:
    """Its tensors in the order of `specs`, in the shapes that it names; None where they are not those of the model."""
    try:
        named = {tensor["name"]: tensor for tensor in document["inputs"]}
        return [_array(spec, named[spec.name]) for spec in specs]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _array(spec: TensorSpec, tensor: dict[str, Any]) -> Array:
    if tensor["datatype"] != spec.datatype.name or spec.datatype.name == "BF16":
        raise ValueError("of another datatype")
    data: Any = tensor["data"]
    if spec.datatype.kind == "bytes":
        texts = np.array(data, object).reshape(-1)
        data = np.array([text.encode() if isinstance(text, str) else b"" for text in texts], object)
    return np.array(data, spec.datatype.dtype).reshape(tensor["shape"])

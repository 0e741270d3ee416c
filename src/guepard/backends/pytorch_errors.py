"""PyTorch's failures in words that a client may read.

Its own texts hold source lines, file paths and C++ frames, so none of them leaves the log. Whose fault a failed run is:
- An index that is out of range is the caller's: the model has proved at warm-up that it runs.
- Shapes that do not fit one another inside the model are the caller's when the caller has a choice of shape, i.e. when
  an input has a free dimension besides the batch.
- Everything else is the model's.
"""

import re

from guepard.core.errors import GuepardError, InputError, ModelError

_INDEX = re.compile(r"index out of range|out of bounds|Target \S+ is out of|expected.*to be in range", re.IGNORECASE)
_SHAPES = re.compile(
    r"shapes? cannot be multiplied|size of tensor|must match the size|Sizes of tensors|shape '"
    r"|invalid for input of size|Guard failed"
    r"|[Ee]xpected .*(?:dim|size|shape)|[Kk]ernel size can't be greater|[Oo]utput size is too small"
    r"|mismatch|expand|normalized_shape|Dimension out of range|not broadcastable|inconsistent tensor size",
    re.DOTALL,
)


def run_error(error: Exception, model: str, *, shapes_are_free: bool) -> GuepardError:
    """What the client is told of a failed run."""
    text = str(error)
    if isinstance(error, IndexError) or _INDEX.search(text):
        return InputError(f"model {model!r} refuses the input: an index is outside of the range that the model takes")
    if shapes_are_free and _SHAPES.search(text):
        return InputError(
            f"model {model!r} cannot take inputs of these shapes: they do not fit one another or the model"
        )
    return ModelError(f"model {model!r} failed in its engine; the server's log says why")

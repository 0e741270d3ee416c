"""One inference: tensors and what else the request says, before it is bytes of any protocol."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from guepard.core.tensor import Tensor

NOTHING: Mapping[str, Any] = {}


class TensorCall(NamedTuple):
    """`where`: where the values came from, as errors say it.

    `generated`: its values are of no meaning, so that some may be rewritten. `outputs`: the ones to ask for, all if
    empty.
    """

    where: str
    tensors: Sequence[Tensor]
    parameters: Mapping[str, Any] = NOTHING
    outputs: Sequence[str] = ()
    generated: bool = False

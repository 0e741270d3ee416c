"""Which values of an input are indices into a table, and how large they may be.

OpenVINO's CPU plugin does not look: an index beyond a table gives a row of zeros, and so an answer that is wrong and
looks right. Token ids are such indices, and a tokenizer that does not fit the model makes them.
"""

from typing import Any, NamedTuple

import numpy as np

from guepard.core.errors import InputError
from guepard.core.tensor import Array, TensorSpec

_PASSED_THROUGH = frozenset(("Convert", "Reshape", "Squeeze", "Unsqueeze", "Transpose"))


class IndexRule(NamedTuple):
    """The values of input `place` are at least `-size` and less than `size`. Negative ones count from the end."""

    place: int
    size: int

    def check(self, spec: TensorSpec, array: Array, *, is_batched: bool) -> None:
        """Raises: InputError that names the value, and its row."""
        if not array.size or (-self.size <= array.min() and array.max() < self.size):
            return
        wrong = (array < -self.size) | (array >= self.size)
        first = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise InputError(
            f"input {spec.name!r}: {int(array[first])} is no index into a table of {self.size}: "
            f"from {-self.size} to {self.size - 1}",
            row=first[0] if is_batched and first else None,
        )


def find_index_rules(model: Any) -> tuple[IndexRule, ...]:
    """Of the inputs of an OpenVINO model that go into a table as they are."""
    places = {node.get_friendly_name(): place for place, node in enumerate(model.get_parameters())}
    sizes: dict[int, int] = {}
    for node in model.get_ops():
        if node.get_type_name() != "Gather":
            continue
        place = places.get(_origin(node.input_value(1).get_node()))
        size = _table_size(node)
        if place is not None and size is not None:
            sizes[place] = min(sizes.get(place, size), size)
    return tuple(IndexRule(place, size) for place, size in sorted(sizes.items()))


def _origin(node: Any) -> str | None:
    """The name of the input whose values `node` passes on."""
    while node.get_type_name() in _PASSED_THROUGH:
        node = node.input_value(0).get_node()
    return str(node.get_friendly_name()) if node.get_type_name() == "Parameter" else None


def _table_size(gather: Any) -> int | None:
    axis_node = gather.input_value(2).get_node()
    shape = gather.input_value(0).get_partial_shape()
    if axis_node.get_type_name() != "Constant" or shape.rank.is_dynamic:
        return None
    axis = int(np.asarray(axis_node.data).ravel()[0])
    dim = shape[axis if axis >= 0 else axis + len(shape)]
    return None if dim.is_dynamic else int(dim.get_length())

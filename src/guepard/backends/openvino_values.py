"""Which values of an input OpenVINO would answer wrongly and without a word, so that they are refused before.

Two kinds: integers that 32 bits do not hold, as its CPU plugin computes in 32 and cuts the rest off; and indices beyond
the table that they go into, which give a row of zeros, and so an answer that looks right. Token ids are such indices,
and a tokenizer that does not fit the model makes them.

Source: OpenVINO, "CPU Device" (supported inference data types).
"""

from typing import Any, NamedTuple

import numpy as np

from guepard.core.errors import InputError
from guepard.core.tensor import Array, TensorSpec

_PASSED_THROUGH = frozenset(("Convert", "Reshape", "Squeeze", "Unsqueeze", "Transpose"))
_LEAST, _MOST = -(2**31), 2**31 - 1
_LONG = {"i64": _LEAST, "u64": 0}


class ValueRule(NamedTuple):
    """The values of input `place` are from `least` to `most`. `table`: of so many rows, where they are indices."""

    place: int
    least: int
    most: int
    table: int | None = None

    def check(self, spec: TensorSpec, array: Array, *, is_batched: bool) -> None:
        """Raises: InputError that names the value, and its row."""
        if not array.size or (self.least <= array.min() and array.max() <= self.most):
            return
        wrong = (array < self.least) | (array > self.most)
        first = tuple(int(index) for index in np.argwhere(wrong)[0])
        found = f"input {spec.name!r}: {int(array[first])}"
        bounds = f"from {self.least} to {self.most}"
        raise InputError(
            f"{found} is more than 32 bits hold, in which this engine computes: {bounds}"
            if self.table is None
            else f"{found} is no index into a table of {self.table}: {bounds}",
            row=first[0] if is_batched and first else None,
        )


def find_value_rules(model: Any) -> tuple[ValueRule, ...]:
    """Of the inputs of an OpenVINO model."""
    parameters = model.get_parameters()
    rules = {}
    for place, node in enumerate(parameters):
        kind = node.get_element_type().get_type_name()
        if kind in _LONG:
            rules[place] = ValueRule(place, _LONG[kind], _MOST)
    places = {node.get_friendly_name(): place for place, node in enumerate(parameters)}
    for node in model.get_ops():
        if node.get_type_name() != "Gather":
            continue
        index = places.get(_origin(node.input_value(1).get_node()))
        size = _table_size(node)
        if index is not None and size is not None and (index not in rules or size - 1 <= rules[index].most):
            rules[index] = ValueRule(index, -size, size - 1, size)  # negative ones count from the end
    return tuple(rules.values())


def computes_in_f64(model: Any) -> str | None:
    """The name of a tensor that `model` takes, gives, or has as weights in FP64: the CPU plugin makes it FP32."""
    for node in model.get_ops():
        kind = node.get_type_name()
        if kind not in ("Parameter", "Result", "Constant") or node.get_element_type().get_type_name() != "f64":
            continue
        # A single number is mostly a scale or an epsilon that an exporter wrote in Python's own precision.
        if kind != "Constant" or np.prod(list(node.get_output_shape(0))) > 1:
            return str(node.get_friendly_name())
    return None


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

"""What an ONNX file says of padding: in its metadata, by the names of its dimensions, or by names that all know.

Exporters name free dimensions. An output whose dimension bears the name of the padded one is as long as the inputs, so
nobody has to say it. And a file with an input `attention_mask` next to others of the same free dimension is a
transformer as Hugging Face's tools export it, whose mask says what is padding: such inputs are padded unasked, if the
warm-up shows that answers stay what they are.
Source: ONNX, "Dimension denotation" and dim_param in onnx.proto; transformers, "Padding and truncation".
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from guepard.backends.declared_padding import read_padding
from guepard.core.padding import PaddingRules

_LOGGER = logging.getLogger("guepard.backends.onnxruntime")

METADATA_KEY = "guepard.padding"

_MASK = "attention_mask"
_WHOLE_NUMBERS = ("tensor(int64)", "tensor(int32)")


def find_padding(
    model: str, inputs: Sequence[Any], outputs: Sequence[Any], metadata: Mapping[str, str], asked: PaddingRules | None
) -> PaddingRules | None:
    """The rules of a file whose first dimension is the batch. `asked`: what the operator said, which decides what
    the outputs follow.

    Raises: LoadError for metadata that says nothing sensible.
    """
    text = metadata.get(METADATA_KEY)
    rules = _well_known(inputs) if text is None else read_padding(text, f"metadata {METADATA_KEY}")
    if asked is not None:
        rules = asked.over(rules)
    if rules is None or not rules.inputs or rules.outputs is not None:
        return rules
    names = {_free_name(node) for node in inputs if node.name in rules.inputs}
    found = {
        node.name: axis
        for node in outputs
        for axis, dim in enumerate(node.shape[1:])
        if isinstance(dim, str) and dim in names and node.shape[1:].count(dim) == 1
    }
    if found:
        _LOGGER.info(
            "model %s: outputs as long as the padded inputs, by the names of their dimensions: %s",
            model,
            ", ".join(f"{name} (axis {axis})" for name, axis in found.items()),
        )
    return PaddingRules(rules.inputs, found, rules.buckets, rules.max_tokens, rules.max_padding, rules.origin)


def _well_known(inputs: Sequence[Any]) -> PaddingRules | None:
    """Padding with 0 for inputs of whole numbers, `attention_mask` among them, that have one named dimension alike."""
    mask = next((node for node in inputs if node.name == _MASK), None)
    name = None if mask is None else _free_name(mask)
    alike = all(node.type in _WHOLE_NUMBERS and len(node.shape) == 2 and _free_name(node) == name for node in inputs)
    if name is None or len(inputs) < 2 or not alike:
        return None
    return PaddingRules({node.name: 0 for node in inputs}, origin="inferred")


def _free_name(node: Any) -> str | None:
    """The name of the one free dimension beside the batch, if it has one."""
    free = [dim for dim in node.shape[1:] if not isinstance(dim, int) or dim < 0]
    return free[0] if len(free) == 1 and isinstance(free[0], str) else None

"""`keep`: which outputs are answered, and under which names."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from guepard.core.errors import LoadError
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors


class Keep:
    """`outputs` maps the names that outputs get to those that they have, in the order of the answer."""

    def __init__(self, folder: Path, outputs: Mapping[str, str]) -> None:
        if not outputs:
            raise LoadError("keep.outputs: names no output; write {name: output}")
        self._outputs = dict(outputs)

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        found = {spec.name: spec for spec in given}
        for old in self._outputs.values():
            if old not in found:
                raise LoadError(f"keep.outputs: there is no output {old!r}; there are {', '.join(map(repr, found))}")
        return tuple([TensorSpec(new, found[old].datatype.name, found[old].dims) for new, old in self._outputs.items()])

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        return {new: outputs[old] for new, old in self._outputs.items()}

"""A model of PyTorch ready to be called, whatever it was made from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from guepard.backends.pytorch_names import Picker
from guepard.core.tensor import TensorSpec


@dataclass(frozen=True, slots=True)
class Program:
    """`call` takes tensors in the order of `inputs`; `pick` finds those of `outputs` in what it returns.

    `inputs` and `outputs` have whole shapes where `is_whole`, else they leave the batch out. `max_rows`: no batch may
    be larger; 0: any. `writes`: it may write into its inputs. `runs_python`: between its operators the interpreter
    runs. `kind` is what it was made from, for metadata.
    """

    kind: str
    module: Any
    call: Callable[[Sequence[Any]], Any]
    pick: Picker
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    is_whole: bool
    writes: bool
    runs_python: bool
    max_rows: int = 0

"""What a model of PyTorch computes in.

BF16 is autocast's: it knows which operators gain by it and leaves the others in FP32, whatever types a model names
itself. Weights that are converted beforehand gain nothing over that, and break models that name FP32 anywhere.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.pytorch_compile import compile_program
from guepard.backends.pytorch_program import Program
from guepard.core.errors import LoadError


@dataclass(frozen=True, slots=True)
class Computing:
    """`casts`: outputs come in another type than is declared. `facts` are what else is to tell."""

    program: Program
    precision: str
    casts: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


def compute_in(torch: Any, program: Program, source: ModelSource) -> Computing:
    """`program` in the precision that was asked for, compiled if that was. Raises: LoadError for what does not go."""
    facts: dict[str, Any] = {}
    is_bf16 = _is_bf16(torch, source)

    def around() -> AbstractContextManager[Any]:
        # No cache: it keeps only weights that learn, and none of these do.
        cast: AbstractContextManager[Any] = torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)
        return cast if is_bf16 else nullcontext()

    if source.policy.engines.pytorch.compile:
        program, facts["compile"] = compile_program(torch, program, source, around)
    if not is_bf16:
        return Computing(program, "f32", facts=facts)
    call = program.call

    def call_in_bf16(tensors: Sequence[Any]) -> Any:
        with around():
            return call(tensors)

    return Computing(replace(program, call=call_in_bf16), "bf16", casts=True, facts=facts)


def _is_bf16(torch: Any, source: ModelSource) -> bool:
    if source.precision in (None, "f32"):
        return False
    if source.precision == "f16":
        raise LoadError(
            "precision: f16 is slower than f32 in PyTorch on CPUs, where it computes in it; use f32 or bf16"
        )
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise LoadError("precision: bf16 needs a CPU with instructions for it (AVX-512 BF16 or AMX); use f32")
    return True

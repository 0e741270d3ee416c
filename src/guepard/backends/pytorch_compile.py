"""`torch.compile` while loading, so that no request pays for it.

One row is a case of its own to the compiler; of two rows on, one compiled program takes any number. What it was not
compiled for (another rank, another type) is run as it is, never compiled while a request waits.

A compiler that fails or takes too long leaves the model as it is, and the log and the metadata say why. What can be
known beforehand, a form that cannot be compiled or a compiler that is missing, is an error.
"""

import logging
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from time import perf_counter
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.pytorch_program import Program
from guepard.backends.pytorch_tensors import to_tensor
from guepard.core.errors import LoadError
from guepard.core.tensor import TensorSpec, empty_array

_LOGGER = logging.getLogger("guepard.backends.pytorch")

_FREE_SIZES = (16, 128, 224)
_TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}

_COMPILING = threading.Lock()  # the compiler's stance is the process's

Call = Callable[[Sequence[Any]], Any]


def compile_program(
    torch: Any, program: Program, source: ModelSource, around: Callable[[], AbstractContextManager[Any]]
) -> tuple[Program, str]:
    """The compiled program, or `program` itself, and what became of it in words.

    `around` is the context that it will run in. Raises: LoadError for what cannot be compiled here.
    """
    _check(program)
    options = source.policy.engines.pytorch
    started = perf_counter()
    compiled: Call = torch.compile(program.call, mode=options.compile_mode)
    failures: list[str] = []
    if source.cache is not None:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(source.cache / "inductor"))

    def work() -> None:
        try:
            failures.extend(_compile(torch, program, compiled, source, around))
        except Exception as error:  # a compiler may raise anything
            _LOGGER.warning("model %s: torch.compile failed", source.name, exc_info=error)
            failures.append(f"torch.compile failed ({type(error).__name__})")

    # A daemon: it cannot be stopped, and must not keep the process from ending.
    thread = threading.Thread(target=work, name=f"compile-{source.name}", daemon=True)
    thread.start()
    thread.join(options.compile_timeout_ns / 1e9)
    if thread.is_alive():
        failures.append(f"torch.compile took longer than {options.compile_timeout_ns / 1e9:g} s")
    if failures:
        _LOGGER.warning("model %s is served without being compiled: %s", source.name, failures[0])
        return program, f"no: {failures[0]}"
    return replace(program, call=compiled), f"{options.compile_mode}, in {perf_counter() - started:.1f} s"


def _check(program: Program) -> None:
    if program.kind == "torchscript":
        raise LoadError(
            "pytorch.compile: TorchScript cannot be compiled; export the model with torch.export, or remove the option"
        )
    compiler = os.environ.get("CXX")
    names = (compiler.split()[0],) if compiler else ("g++", "clang++", "c++")
    if not any(shutil.which(name) for name in names):
        raise LoadError(
            f"pytorch.compile needs a C++ compiler ({' or '.join(names)}), and there is none here; install one, or "
            "remove pytorch.compile"
        )


def _compile(
    torch: Any,
    program: Program,
    compiled: Call,
    source: ModelSource,
    around: Callable[[], AbstractContextManager[Any]],
) -> list[str]:
    """Run it with samples of several rows and of one. What speaks against using it."""
    import torch._inductor.config as inductor

    inductor.compile_threads = 1  # no processes of its own beside the server's
    torch.set_num_threads(source.threads)
    size = _accepted_size(torch, program, around)
    with _COMPILING:
        torch.compiler.set_stance("default")
        try:
            for rows in (2, 1):
                with torch.inference_mode(), around():
                    expected = program.pick(program.call(_samples(torch, program, rows, size)))
                    found = program.pick(compiled(_samples(torch, program, rows, size)))
                if not all(torch.allclose(a, b, **_TOLERANCE) for a, b in zip(expected, found, strict=True)):
                    return ["what torch.compile made gives other answers"]
        finally:
            torch.compiler.set_stance("eager_on_recompile")
    return []


def _accepted_size(torch: Any, program: Program, around: Callable[[], AbstractContextManager[Any]]) -> int:
    for size in _FREE_SIZES[:-1]:
        try:
            with torch.inference_mode(), around():
                program.call(_samples(torch, program, 2, size))
        except Exception as error:  # made up, so it may be refused in any way
            _LOGGER.debug("a sample of size %d was refused: %s", size, error)
        else:
            return size
    return _FREE_SIZES[-1]


def _samples(torch: Any, program: Program, rows: int, size: int) -> list[Any]:
    return [_sample(torch, spec, rows, size, is_whole=program.is_whole) for spec in program.inputs]


def _sample(torch: Any, spec: TensorSpec, rows: int, size: int, *, is_whole: bool) -> Any:
    dims = spec.dims if is_whole else (-1, *spec.dims)
    shape = [rows if index == 0 and dim == -1 else size if dim == -1 else dim for index, dim in enumerate(dims)]
    tensor = to_tensor(torch, spec, empty_array(spec, shape))
    for index, dim in enumerate(dims):
        if dim == -1 and shape[index] > 1:
            torch._dynamo.maybe_mark_dynamic(tensor, index)
    return tensor

"""Models on PyTorch: TorchScript, exported programs, and modules that Python code builds.

All of them are programs, so all of them are loaded only if the source is trusted.
"""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.python_module import forget_module
from guepard.backends.pytorch_executor import PyTorchExecutor
from guepard.backends.pytorch_exported import exported_program, load_exported
from guepard.backends.pytorch_files import kind_of
from guepard.backends.pytorch_module import build_module, factory_of, is_ours, module_program, unpickle_module
from guepard.backends.pytorch_precision import Computing, compute_in
from guepard.backends.pytorch_program import Program
from guepard.backends.pytorch_runtime import import_torch
from guepard.backends.pytorch_script import load_script, script_program
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription, Profile
from guepard.core.tensor import TensorSpec

MODEL_FILES = ("model.pt2", "model.pt")
AUTO_MAX_BATCH_SIZE: dict[Profile, int] = {"standard": 64, "low-memory": 8}

_PLATFORM = "pytorch_libtorch"


class PyTorchBackend:
    """Loads a file of PyTorch, a folder that holds `model.pt2` or `model.pt`, or what `pytorch.factory` builds."""

    name = "pytorch"

    def load(self, source: ModelSource) -> "PyTorchModel":
        factory = factory_of(source)
        if factory:
            _require_trust(source, "a factory", is_ours=is_ours(factory))
            torch = import_torch(source.cpus)
            module, imported = build_module(torch, source, factory)
            return _model(torch, source, module_program(torch, source, module, "the module"), imported)
        file = _model_file(source.path)
        source = replace(source, path=file)
        kind = kind_of(file)
        if kind == "weights":
            raise LoadError(
                f"{file.name} holds weights only, and no model to load them into; name what builds it: "
                "pytorch: {factory: net.py:build}, with def build(path, parameters) in a file net.py beside the weights"
            )
        if kind == "module" and not source.trusted:
            raise LoadError(
                f"{file.name} is a module that was pickled as a whole, and loading it runs whatever code it names; "
                "export it with torch.export, or start with --trust or set trust: true if you trust it"
            )
        _require_trust(source, file.name, is_ours=False)
        torch = import_torch(source.cpus)
        if kind == "torchscript":
            program = script_program(torch, source, load_script(torch, source))
        elif kind == "exported":
            program = exported_program(torch, source, load_exported(torch, source))
        else:
            program = module_program(torch, source, unpickle_module(torch, source).module, file.name)
        return _model(torch, source, program, None)


class PyTorchModel:
    """One module, shared by all executors: its `forward` must be fit for several threads, as that of most is."""

    def __init__(
        self,
        torch: Any,
        source: ModelSource,
        computing: Computing,
        description: ModelDescription,
        imported: ModuleType | None,
    ) -> None:
        self.description = description
        self._torch = torch
        self._source = source
        self._computing: Computing | None = computing
        self._imported = imported
        # Parameters never change. Buffers may, and so would an output that is one.
        self._lent = {buffer.data_ptr() for buffer in _buffers(computing.program.module)}

    def executor(self) -> PyTorchExecutor:
        return self._executor(self._source.threads)

    def wide_executor(self) -> PyTorchExecutor | None:
        """The same weights with all threads: they are in memory once. None where it was compiled for fewer."""
        source = self._source
        if source.cpus <= source.threads or source.policy.engines.pytorch.compile:
            return None
        return self._executor(source.cpus)

    def trim(self) -> None:
        """Nothing is held back: PyTorch allocates from the heap, which the server trims."""

    def health(self) -> None:
        """A module that loaded stays fit."""

    def close(self) -> None:
        self._computing = None
        if self._imported is not None:
            forget_module(self._imported)

    def _executor(self, threads: int) -> PyTorchExecutor:
        computing = self._computing
        assert computing is not None, "a model that was closed hands out no executors"
        return PyTorchExecutor(
            self._torch,
            computing.program,
            self._source.name,
            self.description,
            threads,
            casts=computing.casts,
            lent=self._lent,
        )


def _require_trust(source: ModelSource, what: str, *, is_ours: bool) -> None:
    if not (source.trusted or is_ours):
        raise LoadError(
            f"{what} of PyTorch is a program, and running it runs its author's code; start with --trust or set trust: "
            "true if you trust it"
        )


def _model_file(path: Path) -> Path:
    if path.is_dir():
        found = [name for name in MODEL_FILES if (path / name).exists()]
        if not found:
            raise LoadError(f"the folder holds none of {', '.join(MODEL_FILES)}")
        if len(found) > 1:
            raise LoadError(f"the folder holds {' and '.join(found)}; remove one, or serve the file itself")
        path = path / found[0]
    if not path.is_file():
        raise LoadError(f"there is no file {path.name}")
    return path


def _model(torch: Any, source: ModelSource, program: Program, imported: ModuleType | None) -> PyTorchModel:
    computing = compute_in(torch, program, source)
    return PyTorchModel(torch, source, computing, _describe(source, computing), imported)


def _describe(source: ModelSource, computing: Computing) -> ModelDescription:
    program, policy = computing.program, source.policy
    max_batch_size = _max_batch_size(source, program)
    inputs, outputs = program.inputs, program.outputs
    if program.is_whole and max_batch_size:
        inputs, outputs = _without_batch(inputs), _without_batch(outputs)
    return ModelDescription(
        platform=_PLATFORM,
        backend=PyTorchBackend.name,
        inputs=inputs,
        outputs=outputs,
        max_batch_size=max_batch_size,
        batch_verified=policy.max_batch_size is not None or max_batch_size == 0,
        idempotent=True if policy.idempotent is None else policy.idempotent,
        engine=PyTorchBackend.name,
        precision=computing.precision,
        engine_facts={"model": program.kind, **computing.facts},
    )


def _max_batch_size(source: ModelSource, program: Program) -> int:
    asked, bound = source.policy.max_batch_size, program.max_rows
    tensors = (*program.inputs, *program.outputs)
    fixed = next((spec for spec in tensors if spec.dims[:1] != (-1,)), None) if program.is_whole else None
    if asked is None:
        if fixed is not None or not program.inputs:
            return 0
        auto = AUTO_MAX_BATCH_SIZE[source.profile]
        return min(auto, bound) if bound else auto
    if asked and fixed is not None:
        raise LoadError(
            f"max_batch_size is {asked}, but the first dimension of tensor {fixed.name!r} is not free (its shape is "
            f"{list(fixed.dims)}); export the model with a dynamic first dimension or set max_batch_size: 0"
        )
    if bound and asked > bound:
        raise LoadError(f"max_batch_size is {asked}, but the model was exported for batches of at most {bound}")
    return asked


def _without_batch(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(spec.name, spec.datatype.name, spec.dims[1:]) for spec in specs)


def _buffers(module: Any) -> list[Any]:
    try:
        return [buffer for buffer in module.buffers() if buffer.numel()]
    except (AttributeError, RuntimeError):
        return []

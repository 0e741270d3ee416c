"""Models written in Python: a `guepard.Model` subclass, in a file that is trusted to run or handed over as it is."""

import inspect
import logging
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from guepard.backends.base import ModelSource
from guepard.backends.declared_padding import read_padding
from guepard.backends.python_executor import PythonExecutor
from guepard.backends.python_module import forget_module, import_module
from guepard.core.errors import LoadError
from guepard.core.model import Model
from guepard.core.model_config import ModelDescription
from guepard.core.tensor import TensorSpec

_LOGGER = logging.getLogger("guepard.backends.python")

MODEL_FILE = "model.py"


class PythonBackend:
    """Loads a class, a `.py` file or a folder that holds `model.py`; files only if the source is trusted."""

    name = "python"

    def load(self, source: ModelSource) -> "PythonModel":
        if source.model_class is not None:
            return PythonModel(source, source.path, None, source.model_class, _describe(source.model_class, source))
        if not source.trusted:
            raise LoadError("this model runs Python code; start with --trust or set trust: true if you trust it")
        file = source.path / MODEL_FILE if source.path.is_dir() else source.path
        if not file.is_file():
            raise LoadError(f"there is no file {file.name}")
        module = _import(source.name, file)
        try:
            model_class = _find_class(module, file.name, source.entry)
            return PythonModel(source, file.parent, module, model_class, _describe(model_class, source))
        except BaseException:
            forget_module(module)
            raise


class PythonModel:
    """The class in memory. Every executor has an instance of its own. `module` was imported for it alone, if any."""

    def __init__(
        self,
        source: ModelSource,
        folder: Path,
        module: ModuleType | None,
        model_class: type[Model],
        description: ModelDescription,
    ) -> None:
        self.description = description
        self._source = source
        self._folder = folder
        self._module = module
        self._class = model_class
        self._executors: list[PythonExecutor] = []

    def executor(self) -> PythonExecutor:
        """A new instance, loaded. Raises: LoadError when its constructor or its `load` raises."""
        executor = PythonExecutor(self._class, self.description, self._source, self._folder)
        self._executors.append(executor)
        return executor

    def wide_executor(self) -> None:
        """None: how many threads its code takes is its own affair."""

    def trim(self) -> None:
        """Nothing: its memory is its own."""

    def health(self) -> None:
        """Ask every instance. May run while another thread is in `predict` of the same instance."""
        for executor in self._executors:
            executor.health()

    def close(self) -> None:
        for executor in self._executors:
            executor.close()
        self._executors.clear()
        if self._module is not None:
            forget_module(self._module)


def _import(model: str, file: Path) -> ModuleType:
    try:
        return import_module(file)
    except (Exception, SystemExit) as error:
        _LOGGER.error("model %s: %s cannot be imported", model, file.name, exc_info=error)
        raise LoadError(f"{file.name} cannot be imported: {_import_failure(error, file)}") from None


def _import_failure(error: BaseException, file: Path) -> str:
    if isinstance(error, SyntaxError):
        where = Path(error.filename).name if error.filename else file.name
        return f"syntax error in {where}, line {error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    where = f" (line {lines[-1]})" if lines else ""
    if isinstance(error, ModuleNotFoundError):
        return f"there is no module named {error.name!r}{where}; install it or put it beside {file.name}"
    return f"it raised {type(error).__name__}{where}; the server's log says more"


def _find_class(module: ModuleType, file: str, entry: str | None) -> type[Model]:
    if entry is not None:
        named = getattr(module, entry, None)
        if not (isinstance(named, type) and issubclass(named, Model)):
            raise LoadError(f"{file} has no class {entry!r} derived from guepard.Model")
        return named
    classes = dict.fromkeys(value for value in vars(module).values() if isinstance(value, type))
    candidates = [each for each in classes if issubclass(each, Model) and each.__module__ == module.__name__]
    if not candidates:
        raise LoadError(f"{file} defines no class derived from guepard.Model")
    if len(candidates) > 1:
        names = ", ".join(candidate.__name__ for candidate in candidates)
        raise LoadError(
            f"{file} defines several models ({names}); name one of them, as in {file}:{candidates[0].__name__}"
        )
    return candidates[0]


def _describe(model_class: type[Model], source: ModelSource) -> ModelDescription:
    name = model_class.__name__
    if model_class.predict is Model.predict:
        raise LoadError(f"class {name} must define predict(self, inputs, ctx)")
    max_batch_size = model_class.max_batch_size
    if isinstance(max_batch_size, bool) or not isinstance(max_batch_size, int) or max_batch_size < 0:
        raise LoadError(f"class {name}: max_batch_size must be an integer of 0 or more, it is {max_batch_size!r}")
    policy, predict = source.policy, model_class.predict
    return ModelDescription(
        platform="python",
        backend=PythonBackend.name,
        inputs=_specs(name, "inputs", model_class.inputs),
        outputs=_specs(name, "outputs", model_class.outputs),
        max_batch_size=max_batch_size if policy.max_batch_size is None else policy.max_batch_size,
        idempotent=bool(model_class.idempotent) if policy.idempotent is None else policy.idempotent,
        releases_gil=False,
        decoupled=inspect.isgeneratorfunction(predict) or inspect.isasyncgenfunction(predict),
        padding=read_padding(model_class.padding, f"class {name}: padding") if model_class.padding else None,
    )


def _specs(name: str, role: str, declared: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    if not isinstance(declared, list | tuple) or not all(isinstance(spec, TensorSpec) for spec in declared):
        raise LoadError(f"class {name}: {role} must be a list of guepard.Tensor")
    if not declared:
        raise LoadError(f'class {name} declares no {role}; write {role} = [guepard.Tensor("name", "FP32", [4])]')
    names = [spec.name for spec in declared]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise LoadError(f"class {name}: {role} has two tensors named {twice!r}; names must be unique")
    return tuple(declared)

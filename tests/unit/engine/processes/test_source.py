"""Classes on their way to another process: by where they are defined, or refused with a way out."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import guepard
from guepard.backends.base import ModelSource
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelPolicy
from guepard.engine.processes.source import pack, unpack
from tests.services.python_models import Sleep


def source(model_class: type[guepard.Model] | None = None, **parameters: Any) -> ModelSource:
    return ModelSource("m", "1", Path(), ModelPolicy(parameters=parameters), model_class=model_class, trusted=True)


class Outer:
    class Inner(Sleep):
        """Within another class."""


def test_files_go_as_they_are() -> None:
    given = source(k=[1, {"a": None}])
    assert unpack(pack(given)) == given


@pytest.mark.parametrize("model_class", [Sleep, Outer.Inner])
def test_a_class_of_a_module(model_class: type[guepard.Model]) -> None:
    assert unpack(pack(source(model_class))).model_class is model_class


def test_a_class_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the file that is being run: it is imported anew, under another name."""
    file = tmp_path / "program.py"
    file.write_text("import guepard\nclass M(guepard.Model):\n    where = __name__\n")
    program = ModuleType("__main__")
    program.__file__ = str(file)
    program.__spec__ = None
    exec(file.read_text(), vars(program))
    monkeypatch.setitem(sys.modules, "__main__", program)
    found: Any = unpack(pack(source(program.M))).model_class
    assert found.__name__ == "M"
    assert found.where not in ("__main__", "program")


def test_a_class_of_a_module_that_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `python -m`: the module is found by its name, so that its relative imports work."""
    program = ModuleType("__main__")
    program.__file__ = "/nowhere/python_models.py"
    program.__spec__ = ModuleSpec("tests.services.python_models", None)
    program.Sleep = type("Sleep", (guepard.Model,), {"__module__": "__main__"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", program)
    assert unpack(pack(source(program.Sleep))).model_class is Sleep


def test_a_class_that_nobody_else_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(Sleep):
        """In a function."""

    with pytest.raises(LoadError, match=r"Local is defined inside a function .* define it in a module, or use execut"):
        pack(source(Local))
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    typed = type("Typed", (Sleep,), {"__module__": "__main__"})
    with pytest.raises(LoadError, match="an interactive session"):
        pack(source(typed))


def test_a_class_that_is_no_model_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(source(Outer.Inner))
    monkeypatch.setattr(Outer, "Inner", 3)
    with pytest.raises(LoadError, match=r"has no class 'Outer\.Inner' derived from guepard\.Model"):
        unpack(packed)


def test_parameters_that_cannot_be_handed_over() -> None:
    with pytest.raises(LoadError, match=r"its parameters cannot be handed to a process: .*use execution: thread"):
        pack(source(function=lambda: 0))

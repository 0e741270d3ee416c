"""Imports of Python models: private, fresh, and strangers to one another."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from guepard.backends.python_module import forget_module, import_module


@pytest.fixture(autouse=True)
def clean_process() -> Iterator[None]:
    modules, path, finders = dict(sys.modules), list(sys.path), list(sys.meta_path)
    yield
    assert sys.path == path
    assert sys.meta_path == finders
    left = {name for name in sys.modules.keys() - modules.keys() if name.startswith(("_guepard_model", "sibling"))}
    assert not left


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        file = folder / f"{name.replace('__in__', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return folder / "model.py"


def load(path: Path) -> ModuleType:
    module = import_module(path)
    forget_module(module)
    return module


def test_two_models_have_their_own_siblings(tmp_path: Path) -> None:
    model = "from sibling import VALUE\nimport sibling_package.inner as inner\nINNER = inner.VALUE\n"
    for name in ("a", "b"):
        write(
            tmp_path / name,
            model=model,
            sibling=f"VALUE = {name!r}\n",
            sibling_package__in____init__="from . import inner\n",
            sibling_package__in__inner=f"VALUE = {name * 2!r}\n",
        )
    modules = [load(tmp_path / name / "model.py") for name in ("a", "b")]
    assert [(module.VALUE, module.INNER) for module in modules] == [("a", "aa"), ("b", "bb")]
    assert "sibling" not in sys.modules
    assert modules[0].__name__ != modules[1].__name__


def test_a_reload_sees_an_edit_of_the_same_second_and_size(tmp_path: Path) -> None:
    path = write(tmp_path, model="from sibling import VALUE\nOWN = 1\n", sibling="VALUE = 1\n")
    first = load(path)
    write(tmp_path, model="from sibling import VALUE\nOWN = 2\n", sibling="VALUE = 2\n")
    second = load(path)
    assert (first.OWN, first.VALUE, second.OWN, second.VALUE) == (1, 1, 2, 2)
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_sibling_is_found_before_an_installed_package_and_hides_it_no_longer(tmp_path: Path) -> None:
    import yaml

    path = write(tmp_path, model="import yaml\nOWN = yaml.OWN\n", yaml="OWN = True\n")
    assert load(path).OWN
    assert sys.modules["yaml"] is yaml


def test_parts_of_python_stay_what_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, model="import json\nimport colorsys\n", json="", colorsys="")
    module = load(path)
    assert module.json is sys.modules["json"]
    assert hasattr(module.colorsys, "rgb_to_hls")


def test_a_failed_import_leaves_nothing_behind(tmp_path: Path) -> None:
    path = write(tmp_path, model="import sibling\nraise ValueError('no')\n", sibling="")
    with pytest.raises(ValueError, match="no"):
        import_module(path)


def test_dataclasses_find_their_module(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass, field\nfrom typing import ClassVar\n"
        "@dataclass\nclass Point:\n    x: int\n    kind: ClassVar[str] = 'p'\nPOINT = Point(1)\n"
    )
    assert load(write(tmp_path, model=text)).POINT.x == 1


def test_a_folder_of_data_hides_no_package(tmp_path: Path) -> None:
    (tmp_path / "yaml").mkdir()
    module = load(write(tmp_path, model="import yaml\n"))
    assert module.yaml is sys.modules["yaml"]


def test_what_a_sibling_package_lacks_is_an_import_error(tmp_path: Path) -> None:
    path = write(tmp_path, model="import sibling_package.absent\n", sibling_package__in____init__="")
    with pytest.raises(ModuleNotFoundError, match=r"sibling_package\.absent"):
        import_module(path)


def test_the_module_knows_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, model="import pathlib\nHERE = pathlib.Path(__file__).parent\n")
    assert tmp_path == load(path).HERE

"""The package is built with its compiled part where there is a compiler, and without it where there is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As much of the project as the hook looks at."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "hatch_build.py", tmp_path)
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copy(ROOT / "LICENSE", tmp_path)
    shutil.copytree(
        ROOT / "src/guepard", tmp_path / "src/guepard", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    return tmp_path


def built(tree: Path) -> Any:
    return Path(next(iter(WheelBuilder(str(tree)).build(directory=str(tree / "dist"), versions=["standard"]))))


@pytest.mark.parametrize("variable", [("CC", "/bin/false"), ("CC", "/nowhere/cc"), ("GUEPARD_NO_COMPILED", "1")])
def test_without_a_compiler_it_is_pure(tree: Path, variable: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*variable)
    wheel = built(tree)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [*(tree / "src").rglob("*.so*")]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")
def test_with_one_it_has_the_part_and_reads_numbers(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GUEPARD_NO_COMPILED", raising=False)
    wheel = built(tree)
    if wheel.name.endswith("none-any.whl"):
        pytest.skip("there is a C compiler here, but not what Python's own headers need")
    shutil.unpack_archive(wheel, tree / "site", "zip")
    code = (
        "from guepard.protocols.compiled_part import load_compiled\n"
        "out = bytearray(3)\n"
        "print(load_compiled().read(b'[1,2,255]', (3,), 'B', 0.0, out), list(out), load_compiled().__file__)"
    )
    for switch, expected in (("", f"True [1, 2, 255] {tree / 'site'}"), ("1", "AttributeError")):
        environment = {**os.environ, "PYTHONPATH": str(tree / "site"), "GUEPARD_NO_COMPILED": switch}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert expected in done.stdout + done.stderr

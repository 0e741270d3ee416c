"""The examples of using Guepard from a program run, and say what their page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "python"
PAGE = ROOT / "docs" / "how-to" / "use-from-python.md"


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_serving_in_a_program() -> None:
    assert run(EXAMPLES / "serve_in_a_program.py") == "5 words\n"


def test_inferring_without_a_server() -> None:
    output = run(EXAMPLES / "infer_without_a_server.py")
    assert output.splitlines()[2] == "label [0] probabilities [[1. 0.]]"
    assert "3 answers from asyncio" in output
    assert output.splitlines()[-1].startswith("refused: input 'features': expected shape [-1, 30]")


def test_testing_with_pytest() -> None:
    alone = ("-m", "pytest", "-c", os.devnull, "--rootdir", EXAMPLES, "-p", "no:cacheprovider")
    assert "3 passed" in run(*alone, EXAMPLES / "test_word_count.py", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks())))
def test_the_page_s_own_lines_run(number: int, tmp_path: Path) -> None:
    """Each block alone, in a folder with a model.onnx, on ports of its own."""
    model = ROOT / "examples" / "model_repository" / "breast_cancer" / "1" / "model.onnx"
    (tmp_path / "model.onnx").write_bytes(model.read_bytes())
    text = blocks()[number].replace("server.wait()", "server.stop()")
    done = subprocess.run(
        [sys.executable, "-c", f"import guepard\n{text}"],
        cwd=tmp_path,
        env=os.environ | {"GUEPARD_HTTP_PORT": "0", "GUEPARD_METRICS_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

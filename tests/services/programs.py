"""Programs that have Guepard inside, run as processes of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

MODELS = """
import guepard

class Double(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [1])]
    outputs = [guepard.Tensor("y", "FP32", [1])]
    max_batch_size = 8

    def predict(self, inputs, ctx):
        return {"y": inputs["x"] * 2}
"""


class Ending:
    def __init__(self, code: int, output: str, errors: str) -> None:
        self.code = code
        self.output = output
        self.errors = errors


class Program:
    """A Python program that has `MODELS` before its `text`. Every warning that it gives is in `errors`."""

    def __init__(self, folder: Path, text: str) -> None:
        file = folder / "program.py"
        file.write_text(MODELS + text)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "default", file.name],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )

    def __enter__(self) -> "Program":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def ending(self, timeout_s: float = 30.0) -> Ending:
        output, errors = self.process.communicate(timeout=timeout_s)
        return Ending(self.process.returncode, output, errors)


def run(folder: Path, text: str) -> Ending:
    with Program(folder, text) as program:
        return program.ending()

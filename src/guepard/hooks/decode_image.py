"""`decode_image`: image files, as callers send them, into pictures."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Literal

from guepard.core.errors import InputError, LoadError
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.image_source import BadImage, ImageSource, Least, LeastFor
from guepard.hooks.one_tensor import find_tensor, replaced
from guepard.hooks.picture_rows import WHAT, PictureRows, colour, holds_pictures
from guepard.hooks.resize import Resize

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 60_000_000


class DecodeImage:
    """Each row is a file: JPEG, PNG, WebP, BMP or GIF (its first picture), turned as its EXIF data says.

    What is transparent shows `background`. All rows of a request must be of one size, unless `resize` follows.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "image",
        color: Literal["RGB", "BGR", "GRAY"] = "RGB",
        background: Sequence[int] = (255, 255, 255),
        max_pixels: int = MAX_PIXELS,
        truncated: Literal["refuse", "accept"] = "refuse",
        reduce: bool = True,
        input: str | None = None,  # noqa: A002 - the option's name
    ) -> None:
        self.name = name
        self.reduces = reduce
        self._color = color
        self._background = colour("decode_image.background", background)
        self._input = input
        self._max_pixels = max_pixels
        self._source = ImageSource(max_pixels, is_grey=color == "GRAY", takes_truncated=truncated == "accept")

    def before(self, wanted: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        place = find_tensor("decode_image", "input", self._input, wanted, holds_pictures, WHAT)
        spec = wanted[place]
        self.makes = spec.name
        self._sides = spec.dims[:2]
        channels = 1 if self._color == "GRAY" else 3
        if spec.dims[2] != channels:
            raise LoadError(
                f"decode_image.color: {self._color} has {channels} channels, and what follows takes {spec.dims[2]}"
            )
        return replaced(wanted, place, TensorSpec(self.name, "BYTES", (), spec.optional))

    def joined(self, following: object) -> "DecodeResized | None":
        """With a `resize` right behind it, one step instead of both: no picture is ever larger than it has to be."""
        if isinstance(following, Resize) and following.name == self.makes:
            return DecodeResized(self, following)
        return None

    def run(self, tensors: Tensors) -> Tensors:
        files = tensors.get(self.name)
        if files is None:
            return tensors
        rows = self.rows(len(files))
        pixels = 0
        for row, data in enumerate(files):
            picture = self.picture(row, data, _whole)
            pixels += picture.width * picture.height
            if pixels > self._max_pixels:
                raise InputError(
                    f"input {self.name!r}: images 0 to {row} have {pixels} pixels, and a request may have "
                    f"{self._max_pixels} (decode_image.max_pixels) where no resize follows",
                    row=row,
                )
            rows.put(row, self.flat(picture))
        return self.answer(tensors, rows, *self._sides)

    def rows(self, count: int) -> PictureRows:
        return PictureRows(self.name, count, 1 if self._color == "GRAY" else 3)

    def picture(self, row: int, data: bytes, least_for: LeastFor) -> "Image":
        """Raises: InputError that names the row."""
        try:
            return self._source.picture(data, least_for)
        except BadImage as error:
            raise InputError(f"input {self.name!r}: image {row} {error}", row=row) from None

    def flat(self, picture: "Image") -> "Image":
        """Without transparency, in as many channels as are wanted."""
        return self._source.flat(picture, self._background)

    def answer(self, tensors: Tensors, rows: PictureRows, height: int, width: int) -> Tensors:
        array = rows.tensor(height, width)
        others = {name: tensor for name, tensor in tensors.items() if name != self.name}
        return {**others, self.makes: array[..., ::-1] if self._color == "BGR" else array}


class DecodeResized:
    """`decode_image` and the `resize` behind it, image by image. A JPEG is decoded at the scale that is needed."""

    def __init__(self, decode: DecodeImage, resize: Resize) -> None:
        self._decode = decode
        self._resize = resize
        self._least: LeastFor = resize.least if decode.reduces else _whole

    def run_timed(self, tensors: Tensors, spent_ns: list[int], place: int) -> Tensors:
        """As `run` of both; what each takes is added to `spent_ns`, from `place` on."""
        decode, resize = self._decode, self._resize
        files = tensors.get(decode.name)
        if files is None:
            return tensors
        rows = decode.rows(len(files))
        for row, data in enumerate(files):
            started = perf_counter_ns()
            picture = decode.picture(row, data, self._least)
            decoded = perf_counter_ns()
            rows.put(row, decode.flat(resize.resized(picture)))
            spent_ns[place] += decoded - started
            spent_ns[place + 1] += perf_counter_ns() - decoded
        return decode.answer(tensors, rows, *resize.made)


def _whole(height: int, width: int) -> Least:
    return Least()

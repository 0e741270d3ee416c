"""One encoded image into a picture: upright, no larger than it has to be, and never half of one."""

import base64
import binascii
import re
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guepard.core.extras import missing_extra
from guepard.hooks.exif import jpeg_orientation, orientation
from guepard.hooks.image_header import ImageFormat, read_header
from guepard.hooks.png_check import png_flaw

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = "JPEG, PNG, WebP, BMP or GIF"
_SIDEWAYS = 5  # orientations from here on exchange height and width
_EXIF_ORIENTATION = 0x0112
# What decoders complain about in pictures that phones make and everybody shows.
_HARMLESS = ("extraneous bytes", "Invalid SOS parameters")
_BASE64_BEGINNING = re.compile(rb"(?:data:image/[\w.+-]+;base64,)?(?=[A-Za-z0-9+/]{8})")


class Least(NamedTuple):
    """A picture may be decoded at a smaller scale as long as it stays this large; 0 stands for its full size."""

    height: int = 0
    width: int = 0


LeastFor = Callable[[int, int], Least]
"""Height and width of the upright picture → how large it is needed."""


class BadImage(Exception):
    """`str` completes "image 3 …"."""


class ImageSource:
    """Decodes images of at most `max_pixels`, which their headers are asked for before anything is decoded.

    `is_grey`: into one channel. `takes_truncated`: a JPEG that ends early is taken for what there is of it. Methods
    are called from several threads at once. Raises: LoadError when the libraries are missing.
    """

    def __init__(self, max_pixels: int, *, is_grey: bool, takes_truncated: bool) -> None:
        try:
            import simplejpeg
            from PIL import Image
        except ImportError:
            raise missing_extra("media", "decode_image") from None
        self._jpeg: Any = simplejpeg
        self._image = Image
        self._max_pixels = max_pixels
        self._mode = "L" if is_grey else "RGB"
        self._colours = "GRAY" if is_grey else "RGB"
        self._takes_truncated = takes_truncated
        self._turns = {
            2: Image.Transpose.FLIP_LEFT_RIGHT,
            3: Image.Transpose.ROTATE_180,
            4: Image.Transpose.FLIP_TOP_BOTTOM,
            5: Image.Transpose.TRANSPOSE,
            6: Image.Transpose.ROTATE_270,
            7: Image.Transpose.TRANSVERSE,
            8: Image.Transpose.ROTATE_90,
        }

    def picture(self, data: bytes, least_for: LeastFor) -> "Image":
        """In mode RGB or L, or RGBA where some of it is transparent.

        Raises: BadImage. Cost: that of its format's library, in which the interpreter is free.
        """
        header = read_header(data)
        if header is None:
            data = _from_base64(data)
            header = read_header(data)
        if header is None:
            raise BadImage(f"is no {_FORMATS}" if data else "is empty: 0 bytes")
        if header.format == "JPEG":
            turn = jpeg_orientation(data)
            picture = self._jpeg_picture(data, turn, least_for)
        else:
            self._check_size(header.height, header.width)
            picture, turn = self._other_picture(data, header.format)
        turned = self._turns.get(turn)
        return picture if turned is None else picture.transpose(turned)

    def flat(self, picture: "Image", background: tuple[int, ...]) -> "Image":
        """`picture` before a `background` of red, green and blue, where something shines through."""
        if picture.mode == "RGBA":
            ground = self._image.new("RGB", picture.size, background)
            ground.paste(picture, mask=picture.getchannel("A"))
            picture = ground
        return picture if picture.mode == self._mode else picture.convert(self._mode)

    def _jpeg_picture(self, data: bytes, turn: int, least_for: LeastFor) -> "Image":
        try:
            height, width, _, _ = self._jpeg.decode_jpeg_header(data)
        except ValueError:  # what this library does not know, the other may
            return self._other_picture(data, "JPEG")[0]
        self._check_size(height, width)
        least = least_for(width, height) if turn >= _SIDEWAYS else least_for(height, width)
        if turn >= _SIDEWAYS:
            least = Least(least.width, least.height)
        array = self._decode_jpeg(data, least)
        return self._image.fromarray(array[:, :, 0] if self._mode == "L" else array)

    def _decode_jpeg(self, data: bytes, least: Least) -> Any:
        options = {"colorspace": self._colours, "min_height": least.height, "min_width": least.width}
        try:
            return self._jpeg.decode_jpeg(data, **options)
        except ValueError as error:
            complaint = str(error)
        if not self._takes_truncated:
            if "Premature end" in complaint:
                raise BadImage("is a JPEG that is cut off before its end (see decode_image.truncated)")
            if not any(words in complaint for words in _HARMLESS) or data.rfind(b"\xff\xd9") < 0:
                raise BadImage("is a damaged JPEG")
        try:
            return self._jpeg.decode_jpeg(data, strict=False, **options)
        except ValueError:
            raise BadImage("is a damaged JPEG") from None

    def _other_picture(self, data: bytes, kind: ImageFormat) -> "tuple[Image, int]":
        flaw = png_flaw(data) if kind == "PNG" else None
        if flaw is not None:
            raise BadImage(f"is a PNG that {flaw}")
        try:
            with self._image.open(BytesIO(data), formats=(kind,)) as image:
                self._check_size(image.height, image.width)
                image.load()
                turn = 1 if kind == "JPEG" else orientation(image.getexif().get(_EXIF_ORIENTATION))
                return self._in_eight_bits(image), turn
        except (BadImage, MemoryError):
            raise
        except Exception as error:  # decoders raise whatever they stumble over in a broken file
            raise BadImage(f"is a damaged or cut off {kind}") from error

    def _in_eight_bits(self, image: "Image") -> "Image":
        if image.mode.startswith("I"):  # 16 bits in one channel, which the library would clip and not scale
            image = _from_sixteen_bits(self._image, image)
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            return image.convert("RGBA")
        return image.convert(self._mode)

    def _check_size(self, height: int, width: int) -> None:
        if not height or not width:
            raise BadImage(f"says that it has {width} x {height} pixels")
        if height * width > self._max_pixels:
            raise BadImage(
                f"has {width} x {height} = {width * height} pixels, and at most {self._max_pixels} are decoded "
                "(decode_image.max_pixels)"
            )


def _from_sixteen_bits(library: Any, image: "Image") -> "Image":
    values = np.asarray(image)
    if values.dtype.itemsize > 2:
        values = values.clip(0, 65_535)
    grey = library.fromarray((values >> 8).astype(np.uint8))
    clear = image.info.get("transparency")
    if not isinstance(clear, int):
        return grey
    return library.merge("LA", (grey, library.fromarray(np.where(values == clear, 0, 255).astype(np.uint8))))


def _from_base64(data: bytes) -> bytes:
    """What `data` stands for where it is Base64, plain or in a data: URL, as images come in JSON; else itself."""
    beginning = _BASE64_BEGINNING.match(data)
    if beginning is None:
        return data
    try:
        return base64.b64decode(memoryview(data)[beginning.end() :], validate=True)
    except binascii.Error:
        return data

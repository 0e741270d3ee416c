"""Image files into pictures. Field cases F152, F154, F155, F156, F158 and F160."""

import base64
import time
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from guepard.core.errors import InputError, LoadError
from guepard.core.hooks import StepSpec
from guepard.core.tensor import TensorSpec
from guepard.hooks.chain import PreChain
from guepard.hooks.resize import Resize
from tests.services.image_files import encoded, exif_block, gradient, png, with_exif
from tests.unit.hooks.images import PICTURES, Steps, chain, decoded, made

RED, BLUE = (255, 0, 0), (0, 0, 255)
# What is done to the stored picture so that a viewer shows it as it was.
STORED_FOR = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def peak_kib(*, forget: bool = False) -> int:
    """The most that this process had in memory since it was last to `forget`."""
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def two_halves() -> Image.Image:
    image = Image.new("RGB", (40, 20), RED)
    image.paste(BLUE, (20, 0, 40, 20))
    return image


def stored(flag: int) -> Image.Image:
    turn = STORED_FOR[flag]
    return two_halves() if turn is None else two_halves().transpose(turn)


class TestOrientation:
    """Field case F152."""

    @pytest.mark.parametrize("flag", STORED_FOR)
    @pytest.mark.parametrize("order", [">", "<"])
    def test_pictures_are_turned_upright(self, flag: int, order: str) -> None:
        upright = decoded(encoded(two_halves(), "JPEG")).astype(int)
        turned = decoded(with_exif(encoded(stored(flag), "JPEG"), exif_block(flag, order))).astype(int)
        assert turned.shape == upright.shape == (20, 40, 3)
        assert np.abs(turned - upright).mean() <= 3

    @pytest.mark.parametrize("flag", STORED_FOR)
    def test_and_before_they_are_resized(self, flag: int) -> None:
        """Sides are exchanged where the picture lies on its side, also for the scale at which it is decoded."""
        jpeg = with_exif(encoded(stored(flag).resize(stored(flag).size * np.array(16)), "JPEG"), exif_block(flag))
        small = made({"decode_image": {}, "resize": {"size": [10, 20]}}, [jpeg])[0].astype(int)
        assert small.shape == (10, 20, 3)
        assert np.abs(small[:, :9] - RED).mean() <= 3
        assert np.abs(small[:, 11:] - BLUE).mean() <= 3

    @pytest.mark.filterwarnings("ignore:Tag data larger than file")
    @pytest.mark.parametrize(
        "block",
        [
            exif_block(0),
            exif_block(9),
            exif_block(6, kind=4),
            exif_block(6, count=2),
            exif_block(6)[:20],
            b"\xff\xe1\x00\x08Exif\0\0",
            b"\xff\xe1\x00\x10Exif\0\0MM\0*\xff\xff\xff\xff",
            b"\xff\xe1\x00\x10Exif\0\0XX\0*\0\0\0\x08",
        ],
    )
    def test_a_flag_that_is_none_turns_nothing(self, block: bytes) -> None:
        data = with_exif(encoded(two_halves(), "JPEG"), block)
        try:
            picture = decoded(data)
        except InputError:  # a segment cut short may well be no JPEG any more
            assert len(block) == 20
            return
        assert picture.shape == (20, 40, 3)

    @pytest.mark.parametrize("kind", ["PNG", "WEBP"])
    def test_other_files_may_have_one_too(self, kind: str) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        picture = decoded(encoded(stored(6), kind, exif=exif.tobytes(), lossless=True)).astype(int)
        np.testing.assert_array_equal(picture, np.asarray(two_halves()))


class TestSixteenBits:
    """Field cases F154 and F155."""

    RAMP = np.arange(256)

    @pytest.mark.parametrize("order", [">u2", "<u2"])
    def test_grey_is_scaled_and_not_clipped(self, order: str) -> None:
        image = Image.fromarray((self.RAMP[np.newaxis] * 257).astype(order))
        picture = decoded(encoded(image, "PNG"))[0].astype(int)
        assert np.abs(picture - self.RAMP[:, np.newaxis]).max() <= 1

    def test_colours_too(self) -> None:
        rows = np.repeat((self.RAMP * 257).astype(">u2"), 3).tobytes()
        picture = decoded(png(256, 1, 16, 2, (b"IDAT", zlib.compress(b"\0" + rows))))[0].astype(int)
        assert np.abs(picture - self.RAMP[:, np.newaxis]).max() <= 1

    def test_with_a_level_that_is_transparent(self) -> None:
        rows = np.array([0, 257 * 100, 257 * 200], ">u2").tobytes()
        clear = (b"tRNS", (257 * 100).to_bytes(2, "big"))
        picture = decoded(png(3, 1, 16, 0, clear, (b"IDAT", zlib.compress(b"\0" + rows))), background=[1, 2, 3])[0]
        assert picture.tolist() == [[0, 0, 0], [1, 2, 3], [200, 200, 200]]

    def test_two_bits(self) -> None:
        picture = decoded(png(4, 1, 2, 0, (b"IDAT", zlib.compress(b"\0\x1b"))))[0]
        assert picture[:, 0].tolist() == [0, 85, 170, 255]

    @pytest.mark.parametrize("kind", ["TIFF", "PPM"])
    def test_formats_that_are_not_read_are_named(self, kind: str) -> None:
        with pytest.raises(InputError, match="image 0 is no JPEG, PNG, WebP, BMP or GIF"):
            decoded(encoded(gradient(4, 4), kind))


class TestBombs:
    """Field case F156."""

    def bomb(self) -> bytes:
        rows = zlib.compress(bytes(20_000 * (1 + 20_000 // 8)), 9)
        return png(20_000, 20_000, 1, 0, (b"IDAT", rows))

    @pytest.mark.parametrize("size", [20_000, 100_000])
    def test_the_header_is_enough_to_refuse_one(self, size: int) -> None:
        data = self.bomb() if size == 20_000 else png(size, size, 8, 2, (b"IDAT", b""))
        decoded(encoded(gradient(4, 4), "PNG"))  # what is imported for it
        memory, started = peak_kib(forget=True), time.process_time()
        with pytest.raises(InputError, match=rf"image 0 has {size} x {size} = {size**2} pixels, and at most 60000000"):
            decoded(data)
        assert time.process_time() - started < 0.2
        assert peak_kib() - memory < 50_000

    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "GIF"])
    @pytest.mark.parametrize("options", [{}, {"lossless": True}])
    def test_of_any_format(self, kind: str, options: dict[str, bool]) -> None:
        data = encoded(gradient(30, 20), kind, **options)
        assert decoded(data, max_pixels=600).shape == (30, 20, 3)
        with pytest.raises(InputError, match=r"image 0 has 20 x 30 = 600 pixels, and at most 599 are decoded"):
            decoded(data, max_pixels=599)

    def test_images_that_are_not_resized_share_the_bound(self) -> None:
        data = encoded(gradient(30, 20), "PNG")
        with pytest.raises(InputError, match="images 0 to 2 have 1800 pixels, and a request may have 1200") as error:
            made({"decode_image": {"max_pixels": 1200}}, [data] * 3)
        assert error.value.row == 2


class TestTransparency:
    """Field case F158."""

    @pytest.mark.parametrize("background", [(255, 255, 255), (10, 20, 30)])
    def test_what_shines_through_is_the_background(self, background: tuple[int, int, int]) -> None:
        half = Image.new("RGBA", (4, 4), (255, 0, 0, 128))
        expected = np.array([255, 0, 0]) * 128 / 255 + np.array(background) * 127 / 255
        for data in (encoded(half, "PNG"), encoded(half, "WEBP", lossless=True)):
            picture = decoded(data, background=background)
            assert np.abs(picture[0, 0] - expected).max() <= 1

    def test_in_every_form(self) -> None:
        grey = Image.new("LA", (4, 4), (100, 0))
        palette = Image.new("P", (4, 4), 1)
        palette.putpalette([0, 0, 0, 255, 0, 0])
        keyed = Image.new("RGB", (4, 4), (1, 2, 3))
        files = [
            encoded(Image.new("RGBA", (4, 4), (255, 0, 0, 0)), "PNG"),
            encoded(grey, "PNG"),
            encoded(palette, "PNG", transparency=1),
            encoded(keyed, "PNG", transparency=(1, 2, 3)),
            encoded(palette, "GIF", transparency=1),
        ]
        for data in files:
            assert decoded(data).tolist() == [[[255, 255, 255]] * 4] * 4

    @pytest.mark.parametrize("mode", ["L", "P", "1", "RGB"])
    def test_pictures_without_it_are_as_they_are(self, mode: str) -> None:
        image = Image.fromarray(gradient(8, 8)).convert(mode)
        np.testing.assert_array_equal(decoded(encoded(image, "PNG")), np.asarray(image.convert("RGB")))

    def test_it_is_blended_after_resizing_as_before(self) -> None:
        pixels = np.dstack([gradient(64, 64), np.tile(np.linspace(0, 255, 64).astype(np.uint8), (64, 1))])
        image = Image.fromarray(pixels)
        ground = Image.new("RGBA", image.size, (255, 255, 255, 255))
        before = Image.alpha_composite(ground, image).convert("RGB").resize((16, 16), Image.Resampling.BILINEAR)
        after = made({"decode_image": {}, "resize": {"size": 16}}, [encoded(image, "PNG")])[0]
        assert np.abs(after.astype(int) - np.asarray(before).astype(int)).max() <= 2


class TestBrokenFiles:
    """Field case F160."""

    JPEG = encoded(gradient(64, 64), "JPEG")
    PNG = encoded(gradient(64, 64), "PNG")

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (JPEG[: len(JPEG) * 6 // 10], "is a JPEG that is cut off before its end"),
            (JPEG[:-2], "is a JPEG that is cut off before its end"),
            (JPEG[:40], "is a damaged or cut off JPEG"),
            (JPEG[:3], "is a damaged or cut off JPEG"),
            (PNG[:-20], "is a PNG that is cut off before its end"),
            (PNG[: len(PNG) // 2], "is a PNG that is cut off before its end"),
            (PNG[:-14] + b"\0\0" + PNG[-12:], "is a PNG that is damaged: a checksum in it is wrong"),
            (PNG[:12], "is no JPEG, PNG"),
            (b"", "is empty: 0 bytes"),
            (b"not an image at all, but a note that was named .jpg", "is no JPEG, PNG"),
            (b"<!DOCTYPE html><html><body>404 Not Found</body></html>", "is no JPEG, PNG"),
            (encoded(gradient(64, 64), "WEBP")[:60], "is a damaged or cut off WEBP"),
            (encoded(gradient(64, 64), "GIF")[:900], "is a damaged or cut off GIF"),
            (encoded(gradient(64, 64), "BMP")[:-300], "is a damaged or cut off BMP"),
            (b"RIFF\x10\0\0\0WEBPVP9 " + bytes(20), "is no JPEG, PNG"),
            (png(0, 4, 8, 2), "says that it has 0 x 4 pixels"),
        ],
    )
    def test_is_refused_by_its_number(self, data: bytes, reason: str) -> None:
        with pytest.raises(InputError, match=f"input 'image': image 1 {reason}") as error:
            made({"decode_image": {}, "resize": {"size": 8}}, [self.JPEG, data, b""])
        assert error.value.row == 1

    @pytest.mark.parametrize("name", ["JPEG", "PNG"])
    def test_what_follows_a_whole_picture_does_no_harm(self, name: str) -> None:
        data: bytes = getattr(self, name)
        np.testing.assert_array_equal(decoded(data + bytes(1_000_000)), decoded(data))

    def test_the_half_of_a_jpeg_is_taken_where_that_is_wanted(self) -> None:
        half = decoded(self.JPEG[: len(self.JPEG) * 6 // 10], truncated="accept")
        np.testing.assert_array_equal(half[:24], decoded(self.JPEG)[:24])
        with pytest.raises(InputError, match="is a damaged or cut off JPEG"):
            decoded(self.JPEG[:40], truncated="accept")

    def test_noise_behind_the_scan_is_harmless(self) -> None:
        data = self.JPEG[:-2] + b"\0\0\0" + self.JPEG[-2:]
        np.testing.assert_array_equal(decoded(data), decoded(self.JPEG))

    def test_any_bytes_give_a_picture_or_an_input_error(self) -> None:
        random = np.random.default_rng(0)
        for kind in ("JPEG", "PNG", "WEBP", "BMP", "GIF"):
            whole = bytearray(encoded(gradient(24, 24), kind))
            for _ in range(40):
                data = bytearray(whole)
                for place in random.integers(0, len(data), 3):
                    data[place] = random.integers(256)
                try:
                    picture = decoded(bytes(data))
                except InputError:
                    continue
                assert picture.ndim == 3


class TestJpegs:
    @pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 2}, {"subsampling": 1}])
    def test_of_every_kind(self, options: dict[str, int]) -> None:
        pixels = gradient(33, 47)
        assert np.abs(decoded(encoded(pixels, "JPEG", **options)).astype(int) - pixels).max() <= 12

    def test_grey(self) -> None:
        image = Image.fromarray(gradient(16, 16)).convert("L")
        picture = decoded(encoded(image, "JPEG"))
        assert picture.shape == (16, 16, 3)
        assert np.abs(picture[..., 0].astype(int) - np.asarray(image)).max() <= 2

    def test_cmyk(self) -> None:
        image = Image.fromarray(gradient(32, 32)).convert("CMYK")
        picture = decoded(encoded(image, "JPEG"))
        assert np.abs(picture.astype(int) - np.asarray(image.convert("RGB"))).mean() <= 3

    def test_are_decoded_at_the_scale_that_is_needed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = encoded(gradient(1_080, 1_920), "JPEG", quality=80)
        small: Steps = {"decode_image": {}, "resize": {"size": 256, "mode": "shortest_edge", "crop": 224}}
        full: Steps = {"decode_image": {"reduce": False}, "resize": small["resize"]}
        assert np.abs(made(small, [data]).astype(int) - made(full, [data])).max() <= 3
        heights = []
        resized = Resize.resized

        def noted(resize: Resize, picture: Image.Image) -> Image.Image:
            heights.append(picture.height)
            return resized(resize, picture)

        monkeypatch.setattr(Resize, "resized", noted)
        for steps in (small, full):
            made(steps, [data])
        assert 256 <= heights[0] < heights[1] == 1_080

    def test_never_at_a_smaller_one(self) -> None:
        data = encoded(gradient(100, 100), "JPEG")
        assert made({"decode_image": {}, "resize": {"size": 90}}, [data]).shape == (1, 90, 90, 3)
        assert made({"decode_image": {}, "resize": {"size": 300}}, [data]).shape == (1, 300, 300, 3)


class TestWhatComes:
    @pytest.mark.parametrize("prefix", [b"", b"data:image/png;base64,"])
    def test_base64_is_understood(self, prefix: bytes) -> None:
        pixels = gradient(8, 8)
        data = prefix + base64.b64encode(encoded(pixels, "PNG"))
        np.testing.assert_array_equal(decoded(data), pixels)

    def test_only_the_first_picture_of_an_animation(self) -> None:
        frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE)]
        for kind in ("GIF", "WEBP", "PNG"):
            file = BytesIO()
            frames[0].save(file, kind, save_all=True, append_images=frames[1:], lossless=True)
            assert decoded(file.getvalue())[0, 0].tolist() == list(RED)

    def test_channels_in_another_order(self) -> None:
        data = encoded(Image.new("RGB", (2, 2), (10, 20, 30)), "PNG")
        assert decoded(data, color="BGR")[0, 0].tolist() == [30, 20, 10]

    @pytest.mark.parametrize("kind", ["JPEG", "PNG"])
    def test_grey_where_it_is_wanted(self, kind: str) -> None:
        image = Image.fromarray(gradient(16, 16))
        picture = decoded(encoded(image, kind), color="GRAY")
        assert picture.shape == (16, 16, 1)
        assert np.abs(picture[..., 0].astype(int) - np.asarray(image.convert("L"))).max() <= 3

    def test_images_of_one_request_must_be_alike_without_resize(self) -> None:
        files = [encoded(gradient(8, 8), "PNG"), encoded(gradient(8, 9), "PNG")]
        with pytest.raises(InputError, match="image 1 has 9 x 8 pixels and image 0 8 x 8") as error:
            made({"decode_image": {}}, files)
        assert error.value.row == 1

    def test_no_images_are_no_pictures(self) -> None:
        assert made({"decode_image": {}, "resize": {"size": 8}}, []).shape == (0, 8, 8, 3)
        assert made({"decode_image": {}}, []).shape == (0, 0, 0, 3)


class TestWhatIsDeclared:
    def test_callers_see_files(self) -> None:
        links = chain({"decode_image": {"name": "photo"}}, PICTURES, TensorSpec("y", "FP32", [3]))
        assert links.takes == (TensorSpec("photo", "BYTES", []), TensorSpec("y", "FP32", [3]))

    def test_other_inputs_pass_untouched(self) -> None:
        other = np.ones((1, 3), np.float32)
        links = chain({"decode_image": {}}, PICTURES, TensorSpec("y", "FP32", [3]))
        files = np.array([encoded(gradient(4, 4), "PNG")], object)
        tensors = links.run({"image": files, "y": other}, [0])
        assert list(tensors) == ["y", "x"]
        assert tensors["y"] is other

    def test_an_optional_picture_may_be_left_out(self) -> None:
        chains: list[Steps] = [{"decode_image": {}}, {"decode_image": {}, "resize": {}, "normalize": {}}]
        for steps in chains:
            wanted = TensorSpec("x", "UINT8" if len(steps) == 1 else "FP32", [4, 4, 3], optional=True)
            links = chain(steps, wanted)
            assert links.takes[0].optional
            assert links.run({}, [0] * 3) == {}

    @pytest.mark.parametrize(
        ("steps", "wanted", "reason"),
        [
            ({"decode_image": {}}, TensorSpec("x", "FP32", [3]), "decode_image: none of the inputs 'x' is pictures"),
            ({"decode_image": {"input": "y"}}, PICTURES, "decode_image: there is no input 'y'; there are 'x'"),
            ({"decode_image": {"background": [1]}}, PICTURES, "background: expected red, green and blue, got 1"),
            ({"decode_image": {"color": "GRAY"}}, PICTURES, "GRAY has 1 channels, and what follows takes 3"),
        ],
    )
    def test_what_does_not_fit(self, steps: dict[str, Any], wanted: TensorSpec, reason: str) -> None:
        with pytest.raises(LoadError, match=reason):
            chain(steps, wanted)

    def test_two_tensors_of_one_name(self) -> None:
        with pytest.raises(LoadError, match=r"preprocess.decode_image: two tensors would be called 'y'"):
            chain({"decode_image": {"name": "y"}}, PICTURES, TensorSpec("y", "FP32", [3]))

    def test_two_that_would_fit(self) -> None:
        with pytest.raises(LoadError, match=r"'a', 'b' all are pictures.* say by `input` which one is meant"):
            chain({"decode_image": {}}, *[TensorSpec(name, "UINT8", [4, 4, 3]) for name in "ab"])

    def test_a_missing_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "simplejpeg", None)
        with pytest.raises(LoadError, match=r"decode_image needs packages .* pip install 'guepard\[media\]'"):
            chain({"decode_image": {}})

    def test_a_step_that_there_is_not(self) -> None:
        with pytest.raises(LoadError, match="preprocess: there is no step 'resise'; did you mean 'resize'"):
            PreChain([StepSpec("resise")], Path(), [PICTURES])

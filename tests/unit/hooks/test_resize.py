"""Pictures into one size, against Pillow doing it in plain steps."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from guepard.core.errors import LoadError
from guepard.core.tensor import Array, TensorSpec
from tests.services.image_files import Pixels, encoded, gradient
from tests.unit.hooks.images import chain, made

PHOTO = gradient(120, 200)
FILTERS = ["nearest", "box", "bilinear", "bicubic", "lanczos"]


def resized(pixels: Pixels, wanted: TensorSpec | None = None, **options: Any) -> Array:
    wanted = wanted or TensorSpec("x", "UINT8", [-1, -1, pixels.shape[-1]])
    return np.asarray(chain({"resize": options}, wanted).run({"x": pixels[np.newaxis]}, [0])["x"][0])


def differs_by(left: Array, right: Array) -> int:
    assert left.shape == right.shape
    return int(np.abs(left.astype(int) - right.astype(int)).max())


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("size", [(30, 50), (64, 64), (240, 10)])
def test_exact_is_what_pillow_makes(name: str, size: tuple[int, int]) -> None:
    expected = Image.fromarray(PHOTO).resize(size[::-1], Image.Resampling[name.upper()])
    np.testing.assert_array_equal(resized(PHOTO, size=list(size), filter=name), np.asarray(expected))


def test_one_number_is_a_square() -> None:
    np.testing.assert_array_equal(resized(PHOTO, size=32), resized(PHOTO, size=[32, 32]))


@pytest.mark.parametrize("pixels", [PHOTO, PHOTO.transpose(1, 0, 2)])
@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
def test_shortest_edge_and_its_middle_are_those_of_torchvision(pixels: Pixels, name: str) -> None:
    """Resize(64), then CenterCrop(56), in their definitions: the long edge is rounded down, the margin to even."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    width, height = image.size
    long = int(64 * max(width, height) / min(width, height))
    whole = (64, long) if width < height else (long, 64)
    left, top = round((whole[0] - 56) / 2), round((whole[1] - 56) / 2)
    expected = image.resize(whole, Image.Resampling[name.upper()]).crop((left, top, left + 56, top + 56))
    assert differs_by(resized(pixels, size=64, mode="shortest_edge", crop=56, filter=name), np.asarray(expected)) <= 1


def test_shortest_edge_without_a_crop_keeps_everything() -> None:
    assert resized(PHOTO, size=60, mode="shortest_edge").shape == (60, 100, 3)


@pytest.mark.parametrize(("pixels", "inside"), [(PHOTO, (38, 64)), (PHOTO.transpose(1, 0, 2), (64, 38))])
def test_fit_shows_all_of_it_in_the_middle(pixels: Pixels, inside: tuple[int, int]) -> None:
    answer = resized(pixels, size=64, mode="fit", fill=[1, 2, 3])
    top, left = (64 - inside[0]) // 2, (64 - inside[1]) // 2
    image = Image.fromarray(np.ascontiguousarray(pixels)).resize(inside[::-1], Image.Resampling.BILINEAR)
    shown = answer[top : top + inside[0], left : left + inside[1]]
    np.testing.assert_array_equal(shown, np.asarray(image))
    answer[top : top + inside[0], left : left + inside[1]] = (1, 2, 3)
    assert (answer == (1, 2, 3)).all()


def test_fit_of_a_sliver_leaves_a_line_of_it() -> None:
    assert resized(gradient(1, 500), size=8, mode="fit").shape == (8, 8, 3)


def test_grey_pictures() -> None:
    grey = PHOTO[..., :1]
    expected = Image.fromarray(grey[..., 0]).resize((20, 20), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(resized(grey, size=20)[..., 0], np.asarray(expected))
    assert resized(grey, size=64, mode="fit", fill=[9, 9, 9])[0, 0] == 9


def test_several_pictures_of_one_request() -> None:
    pixels = np.stack([PHOTO, 255 - PHOTO])
    answer = chain({"resize": {"size": 16}}).run({"x": pixels}, [0])["x"]
    np.testing.assert_array_equal(answer[1], resized(255 - PHOTO, size=16))


def test_around_transparency_the_fill_is_opaque() -> None:
    clear = Image.new("RGBA", (20, 10), (0, 0, 0, 0))
    answer = made(
        {"decode_image": {}, "resize": {"size": 20, "mode": "fit", "fill": [7, 8, 9]}}, [encoded(clear, "PNG")]
    )
    assert answer[0, 0, 0].tolist() == [7, 8, 9]
    assert answer[0, 10, 0].tolist() == [255, 255, 255]


def test_the_size_may_be_the_models() -> None:
    wanted = TensorSpec("x", "UINT8", [24, 32, 3])
    assert resized(PHOTO, wanted).shape == (24, 32, 3)
    assert chain({"resize": {}}, wanted).takes == (TensorSpec("x", "UINT8", [-1, -1, 3]),)


@pytest.mark.parametrize(
    ("options", "dims", "reason"),
    [
        ({}, [-1, -1, 3], r"resize.size: missing, and input 'x' takes any"),
        ({"size": 10}, [24, 32, 3], "resize: it makes 10 x 10, and what follows takes 24 x 32"),
        ({"size": [1, 2, 3]}, [-1, -1, 3], "resize.size: expected one number or height and width"),
        ({"size": 10, "crop": 8}, [-1, -1, 3], "resize.crop: `mode: exact` leaves nothing to cut off"),
        ({"size": 10, "mode": "shortest_edge", "crop": 12}, [-1, -1, 3], "resize.crop: 12 x 12 does not fit"),
        ({"size": [8, 8], "mode": "shortest_edge"}, [-1, -1, 3], "needs one number, the length of that edge"),
        ({"mode": "shortest_edge"}, [8, 8, 3], "needs one number, the length of that edge"),
        ({"size": 10, "mode": "shortest_edge"}, [10, 10, 3], "resize: it makes any x any, and what follows takes 10 x"),
        ({"size": 10, "fill": [1, 2]}, [-1, -1, 3], "resize.fill: expected red, green and blue, got 2 numbers"),
    ],
)
def test_what_does_not_fit(options: dict[str, Any], dims: list[int], reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        chain({"resize": options}, TensorSpec("x", "UINT8", dims))

"""Pictures into the numbers of a model."""

from typing import Any

import numpy as np
import pytest

from guepard.core.errors import LoadError
from guepard.core.tensor import TensorSpec
from tests.services.image_files import gradient
from tests.unit.hooks.images import chain

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
ROWS = np.stack([gradient(5, 7), 255 - gradient(5, 7)])


def test_each_channel_is_moved_and_scaled() -> None:
    links = chain({"normalize": {"mean": MEAN, "std": STD}}, TensorSpec("x", "FP32", [3, 5, 7]))
    assert links.takes == (TensorSpec("x", "UINT8", [5, 7, 3]),)
    answer = links.run({"x": ROWS}, [0])["x"]
    expected = ((ROWS / 255 - MEAN) / STD).transpose(0, 3, 1, 2)
    assert answer.dtype == np.float32
    assert answer.flags.c_contiguous
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("datatype", "rtol"), [("FP16", 2e-3), ("FP32", 1e-6), ("FP64", 1e-6)])
def test_in_the_models_datatype_and_layout(datatype: str, rtol: float) -> None:
    links = chain({"normalize": {"scale": 2, "mean": 1, "std": 4}}, TensorSpec("x", datatype, [-1, -1, 3]))
    answer = links.run({"x": ROWS}, [0])["x"]
    assert answer.dtype == TensorSpec("x", datatype, []).datatype.dtype
    np.testing.assert_allclose(answer, (ROWS * 2.0 - 1) / 4, rtol=rtol)


def test_bytes_are_laid_out_and_stay_as_they_are() -> None:
    answer = chain({"normalize": {}}, TensorSpec("x", "UINT8", [3, 5, 7])).run({"x": ROWS}, [0])["x"]
    np.testing.assert_array_equal(answer, ROWS.transpose(0, 3, 1, 2))
    assert answer.flags.c_contiguous


def test_grey() -> None:
    links = chain({"normalize": {"mean": 0.5, "std": 0.5}}, TensorSpec("x", "FP32", [1, 28, 28]))
    assert links.takes[0].dims == (28, 28, 1)
    assert links.run({"x": np.full((2, 28, 28, 1), 255, np.uint8)}, [0])["x"].max() == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "spec", "reason"),
    [
        ({}, TensorSpec("x", "FP32", [10]), "normalize: none of the inputs 'x' is pictures"),
        ({}, TensorSpec("x", "BF16", [3, 4, 4]), "normalize: none of the inputs 'x' is pictures"),
        ({}, TensorSpec("x", "FP32", [3, 4, 3]), r"normalize.layout: \[3, 4, 3\] does not tell .* write NCHW or NHWC"),
        ({}, TensorSpec("x", "FP32", [4, 4, 4]), "normalize.layout: .* does not tell"),
        ({"layout": "NHWC"}, TensorSpec("x", "FP32", [3, 4, 4]), "normalize.layout: NHWC means 1 or 3 channels there"),
        ({"std": 0}, TensorSpec("x", "FP32", [3, 4, 4]), "normalize.std: 0 divides nothing"),
        ({"mean": [1, 2]}, TensorSpec("x", "FP32", [3, 4, 4]), "normalize.mean: expected one number or 3"),
        ({"mean": 1}, TensorSpec("x", "UINT8", [3, 4, 4]), "takes UINT8, which stay as they are"),
        ({"scale": 0.5}, TensorSpec("x", "UINT8", [3, 4, 4]), "takes UINT8, which stay as they are"),
    ],
)
def test_what_does_not_fit(options: dict[str, Any], spec: TensorSpec, reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        chain({"normalize": options}, spec)


def test_a_layout_that_is_named_settles_what_the_shape_leaves_open() -> None:
    spec = TensorSpec("x", "FP32", [3, 4, 3])
    assert chain({"normalize": {"layout": "NCHW"}}, spec).takes[0].dims == (4, 3, 3)
    assert chain({"normalize": {"layout": "NHWC"}}, spec).takes[0].dims == (3, 4, 3)

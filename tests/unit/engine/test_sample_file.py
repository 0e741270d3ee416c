"""The sample.json of a model's folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guepard.core.tensor import TensorSpec
from guepard.engine.sample_file import read_sample, sample_arrays

X, TEXT = TensorSpec("x", "FP32", [2]), TensorSpec("text", "BYTES", [1])


def document(*tensors: dict[str, Any]) -> dict[str, Any]:
    return {"inputs": list(tensors)}


def tensor(name: str, datatype: str, shape: list[int], data: list[Any]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


FLOATS = tensor("x", "FP32", [1, 2], [1.5, 2])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "sample.json").write_text(json.dumps(document(FLOATS)))
    assert read_sample(tmp_path) == document(FLOATS)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"inputs": 1}', "x" * 70_000])
def test_what_is_no_request_is_not(tmp_path: Path, content: str) -> None:
    (tmp_path / "sample.json").write_text(content)
    assert read_sample(tmp_path) is None


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "other.json").write_text(json.dumps(document(FLOATS)))
    (folder / "sample.json").symlink_to(tmp_path / "other.json")
    assert read_sample(folder) is None


def test_tensors_come_in_the_order_of_the_model() -> None:
    arrays = sample_arrays(document(tensor("text", "BYTES", [1, 1], ["héllo"]), FLOATS), (X, TEXT))
    assert arrays is not None
    x, text = arrays
    np.testing.assert_array_equal(x, np.array([[1.5, 2]], np.float32))
    assert (text.tolist(), text.dtype) == ([["héllo".encode()]], np.dtype(object))


@pytest.mark.parametrize(
    "tensors",
    [
        [],
        [tensor("y", "FP32", [1, 2], [1, 2])],
        [tensor("x", "FP64", [1, 2], [1, 2])],
        [tensor("x", "FP32", [1, 3], [1, 2])],
        [tensor("x", "FP32", [1, 2], ["a", "b"])],
        [{"name": "x"}],
        [7],
    ],
)
def test_what_does_not_fit_the_model_is_none(tensors: list[Any]) -> None:
    assert sample_arrays({"inputs": tensors}, (X,)) is None

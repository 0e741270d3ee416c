"""First questions: what is asked of a model that nobody knows yet, whatever lies in its folder."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guepard.core.model_config import DynamicBatching, ModelConfig, TimeoutPolicy
from guepard.core.tensor import TensorSpec
from guepard.server.welcome import question_for

SAMPLE = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
ZEROS = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.0, 0.0]}]}


def config(*inputs: TensorSpec, max_batch_size: int = 8) -> ModelConfig:
    return ModelConfig(
        name="m",
        version="1",
        platform="p",
        backend="b",
        inputs=inputs or (TensorSpec("x", "FP32", [2]),),
        outputs=(),
        max_batch_size=max_batch_size,
        instance_count=1,
        execution="inline",
        dynamic_batching=DynamicBatching(),
        timeout=TimeoutPolicy(),
        max_concurrency=1,
        idempotent=True,
        decoupled=False,
        parameters={},
    )


def asked(folder: Path, *inputs: TensorSpec, max_batch_size: int = 8) -> Any:
    text = question_for(config(*inputs, max_batch_size=max_batch_size), folder)
    return None if text is None else json.loads(text)


def test_a_sample_in_the_folder_is_the_question(tmp_path: Path) -> None:
    (tmp_path / "sample.json").write_text(json.dumps(SAMPLE))
    assert asked(tmp_path) == SAMPLE


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sample.json").write_text(json.dumps(SAMPLE))
    (tmp_path / "sample.json").symlink_to("data/sample.json")
    assert asked(tmp_path) == SAMPLE


def link_out(path: Path) -> None:
    secret = path.parent.parent / "secret.json"
    secret.write_text(json.dumps(SAMPLE | {"secret": 1}))
    path.symlink_to(secret)


UNFIT: dict[str, Callable[[Path], object]] = {
    "no JSON": lambda path: path.write_text("{"),
    "not UTF-8": lambda path: path.write_bytes(b"\xff"),
    "NaN": lambda path: path.write_text('{"inputs": [NaN]}'),
    "no object": lambda path: path.write_text("[]"),
    "no request": lambda path: path.write_text('{"password": "x"}'),
    "inputs that are no list": lambda path: path.write_text('{"inputs": 1}'),
    "nested deeply": lambda path: path.write_text("[" * 50_000),
    "large": lambda path: path.write_text(json.dumps(SAMPLE) + " " * 100_000),
    "a folder": lambda path: path.mkdir(),
    "a pipe that nobody writes to": lambda path: os.mkfifo(path),
    "a link out of the folder": link_out,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to("sample.json"),
}


@pytest.mark.parametrize("write", UNFIT.values(), ids=UNFIT)
def test_a_sample_that_is_no_request_of_the_folder_is_left_aside(
    tmp_path: Path, write: Callable[[Path], object]
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    write(folder / "sample.json")
    assert asked(folder) == ZEROS


def test_a_model_that_is_one_file_is_asked_zeros(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.touch()
    assert asked(path) == ZEROS


def test_free_dimensions_are_one_and_optional_inputs_are_left_out(tmp_path: Path) -> None:
    text = TensorSpec("t", "BYTES", [-1, 2])
    assert asked(tmp_path, text, TensorSpec("o", "FP32", [1], optional=True), max_batch_size=0) == {
        "inputs": [{"name": "t", "datatype": "BYTES", "shape": [1, 2], "data": ["", ""]}]
    }


@pytest.mark.parametrize("dims", [[2_000], [3, 224, 224], [1_000_000, 1_000_000]])
def test_a_question_that_would_be_too_long_is_not_built(tmp_path: Path, dims: list[int]) -> None:
    assert asked(tmp_path, TensorSpec("x", "FP32", dims)) is None

"""Steps around a model, wherever it runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guepard
from tests.services.onnx_models import mlp, write_model

WHERE = ["inline", "thread", "process"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "mlp.onnx", mlp())


@pytest.mark.parametrize("execution", WHERE)
def test_answers_are_those_of_the_model_between_the_steps(path: Path, execution: str) -> None:
    x = np.arange(90).reshape(3, 30)
    with guepard.load(path) as bare:
        scores = bare.infer({"x": x.astype(np.float32)})["y"]
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)

    group = {"execution": execution}
    steps: dict[str, Any] = {"preprocess": [{"cast": {"datatype": "INT32"}}], "postprocess": ["softmax"]}
    with guepard.load(path, instance_group=group, max_batch_size=2, **steps) as model:
        assert [spec.datatype.name for spec in model.inputs] == ["INT32"]
        np.testing.assert_allclose(model.infer({"x": x})["y"], expected, rtol=1e-5)  # in two batches
        assert model.config["guepard"]["hooks"]["preprocess"] == ["cast"]

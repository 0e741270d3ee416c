"""Memory of a burst, given back by any model's word.

Sources: triton-inference-server/onnxruntime_backend#102, microsoft/onnxruntime#11118 and #29538: arenas that grow with
the shapes of requests and keep their peak.
"""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from guepard.backends.base import ModelSource
from guepard.backends.onnxruntime import OnnxRuntimeBackend, OnnxRuntimeModel
from guepard.core.model_config import ModelPolicy, Profile
from guepard.engine.memory_watch import resident_bytes
from guepard.limits.heap import trim_heap
from tests.services import onnx_models
from tests.services.onnx_models import write_model

MIB = 2**20
BURST = np.zeros((64, 1), np.float32)  # 64 rows take 256 MiB twice


def load(folder: Path, profile: Profile = "standard") -> OnnxRuntimeModel:
    path = write_model(folder / "bulky.onnx", onnx_models.bulky())
    model = OnnxRuntimeBackend().load(ModelSource("m", "1", path, ModelPolicy(), profile=profile))
    assert isinstance(model, OnnxRuntimeModel)
    return model


@pytest.fixture
def model(tmp_path: Path) -> Iterator[OnnxRuntimeModel]:
    model = load(tmp_path)
    yield model
    model.close()


def test_a_burst_is_kept_for_the_next_and_given_back_by_a_trim(model: OnnxRuntimeModel) -> None:
    executor = model.executor()
    executor.execute([BURST[:1]], [])
    trim_heap()
    before = resident_bytes()
    executor.execute([BURST], [])
    assert resident_bytes() - before > 200 * MIB
    model.trim()
    trim_heap()
    assert resident_bytes() - before < 32 * MIB
    assert executor.execute([BURST[:1]], [])[0].tolist() == [[0]]


def test_models_work_in_the_same_memory(model: OnnxRuntimeModel, tmp_path: Path) -> None:
    other = load(tmp_path)
    model.executor().execute([BURST], [])
    before = resident_bytes()
    other.executor().execute([BURST], [])
    assert resident_bytes() - before < 32 * MIB
    other.close()
    model.trim()


def test_ever_new_shapes_do_not_make_it_grow(tmp_path: Path) -> None:
    """In short; 20,000 requests to a server: `tests/slow/test_memory_of_models.py`."""
    path = write_model(tmp_path / "attention.onnx", onnx_models.attention())
    executor = OnnxRuntimeBackend().load(ModelSource("m", "1", path, ModelPolicy())).executor()
    chance = random.Random(1)
    executor.execute([np.ones((8, 512), np.int64)], [])
    seen = []
    for _ in range(400):
        executor.execute([np.ones((chance.randint(1, 8), chance.randint(1, 512)), np.int64)], [])
        seen.append(resident_bytes())
    assert max(seen[300:]) <= max(seen[:300]) * 1.02


def test_where_memory_is_short_nothing_is_kept(tmp_path: Path) -> None:
    model = load(tmp_path, "low-memory")
    assert model.description.max_batch_size == 8
    executor = model.executor()
    executor.execute([BURST[:1]], [])
    before = resident_bytes()
    executor.execute([BURST], [])
    trim_heap()
    assert resident_bytes() - before < 32 * MIB


def test_a_trim_disturbs_no_execution(model: OnnxRuntimeModel) -> None:
    ended = threading.Event()

    def trim() -> None:
        while not ended.is_set():
            model.trim()

    trimming = threading.Thread(target=trim)
    trimming.start()
    try:
        executor = model.executor()
        for value in range(20):
            (answer,) = executor.execute([np.full((2, 1), value, np.float32)], [])
            np.testing.assert_allclose(answer, np.sin([[value], [value]]), rtol=1e-2)
    finally:
        ended.set()
        trimming.join()

"""Where TensorRT's engines are kept, and what they depend on."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from guepard.backends import tensorrt_cache
from guepard.backends.tensorrt_cache import engine_folder, engine_key, model_digest, timing_folder, timing_key

BASE: dict[str, Any] = {
    "model": "abc",
    "versions": {"onnxruntime": "1.32.0", "tensorrt": "101300"},
    "gpu": {"name": "NVIDIA H200", "compute_capability": "9.0", "driver": "13000"},
    "options": {"device_id": "0", "trt_fp16_enable": "True", "trt_profile_max_shapes": "x:8x3"},
}


def key(**changes: Any) -> str:
    return engine_key(**(BASE | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "abd"},
        {"versions": {"onnxruntime": "1.32.1", "tensorrt": "101300"}},
        {"versions": {"onnxruntime": "1.32.0", "tensorrt": "101301"}},
        {"gpu": {"name": "NVIDIA H100", "compute_capability": "9.0", "driver": "13000"}},
        {"gpu": {"name": "NVIDIA H200", "compute_capability": "9.0", "driver": "13010"}},
        {"options": {"trt_profile_max_shapes": "x:8x3"}},
        {"options": {"trt_fp16_enable": "True", "trt_profile_max_shapes": "x:16x3"}},
    ],
)
def test_whatever_an_engine_depends_on_changes_its_key(changes: dict[str, Any]) -> None:
    assert key(**changes) != key()


def test_where_it_lies_and_which_of_equal_gpus_does_not() -> None:
    elsewhere = BASE["options"] | {"device_id": "3", "trt_engine_cache_path": "/a", "trt_timing_cache_path": "/b"}
    assert key(options=elsewhere) == key()
    assert key() == key(options=dict(reversed(BASE["options"].items())))
    assert len(key()) == 40


def test_timings_are_for_all_models() -> None:
    assert timing_key(BASE["versions"], BASE["gpu"]) == timing_key(BASE["versions"], BASE["gpu"])
    assert timing_key({"tensorrt": "9"}, BASE["gpu"]) != timing_key(BASE["versions"], BASE["gpu"])


def test_a_model_is_all_that_its_files_hold(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    one.write_bytes(b"weights")
    two.write_bytes(b"more")
    both = model_digest([one, two])
    assert both != model_digest([one])
    assert both == model_digest([one, two])
    two.write_bytes(b"others")
    assert both != model_digest([one, two])


def test_folders_are_private_and_stay(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path, "k")
    assert folder == tmp_path / "tensorrt" / "engines" / "k"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "an.engine").write_bytes(b"e")
    assert (engine_folder(tmp_path, "k") / "an.engine").exists()
    assert timing_folder(tmp_path, "t").is_dir()


def test_engines_that_were_not_loaded_for_longest_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorrt_cache, "MAX_ENGINES", 3)
    for age, name in enumerate(["new", "old", "oldest"]):
        os.utime(engine_folder(tmp_path, name), (1_000_000 - age, 1_000_000 - age))
    engine_folder(tmp_path, "old")  # is used again
    engine_folder(tmp_path, "next")
    assert sorted(entry.name for entry in (tmp_path / "tensorrt" / "engines").iterdir()) == ["new", "next", "old"]

"""Which backend is chosen for what lies at a path."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from guepard.backends.base import ModelSource
from guepard.backends.registry import BACKEND_NAMES, get_backend
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelPolicy
from tests.services import onnx_models

Place = Callable[[Path], Path]


def place(*names: str) -> Place:
    """A folder that holds empty files called `names`."""

    def make(folder: Path) -> Path:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        return folder

    return make


def the_file(name: str) -> Place:
    return lambda folder: place(name)(folder) / name


@pytest.mark.parametrize(
    ("make", "backend"),
    [
        (place("model.onnx"), "onnxruntime"),
        (place("model.onnx/model.onnx"), "onnxruntime"),
        (place("model.py", "helper.py", "weights.onnx"), "python"),
        (the_file("any.onnx"), "onnxruntime"),
        (the_file("any.py"), "python"),
        (the_file("any.pt"), "pytorch"),
        (the_file("any.pth"), "pytorch"),
        (place("model.pt2"), "pytorch"),
        (the_file("any.joblib"), "sklearn"),
        (the_file("any.pkl"), "sklearn"),
        (place("model.skops"), "sklearn"),
        (place("model.pt2", "model.pt"), "pytorch"),
    ],
)
def test_auto_goes_by_what_is_there(tmp_path: Path, make: Place, backend: str) -> None:
    for auto in (None, "auto"):
        assert get_backend(auto, make(tmp_path)).name == backend


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (place(), r"none of model\.onnx, model\.xml, model\.pt2, model\.pt, model\.joblib, .*, model\.py"),
        (place("model.onnx", "model.py"), r"choose with backend: onnxruntime or backend: python"),
        (place("net.onnx"), r"no model\.onnx or .*model\.py, but net\.onnx; rename it, or serve the file itself"),
        (place("model.plan"), r"no backend for TensorRT models \(model\.plan\) in this version; export the model to"),
        (place("saved_model.pb"), "no backend for TensorFlow SavedModel models"),
        (place("model.savedmodel/saved_model.pb"), "no backend for TensorFlow SavedModel models"),
        (the_file("m.H5"), "no backend for Keras models"),
        (the_file("m.what"), r"no backend for such files \(m\.what\)"),
        (the_file("m.tar.gz"), "is an archive, and archives are not opened; unpack it"),
        (the_file("m.ZIP"), "is an archive"),
        (lambda folder: folder / "absent.onnx", r"no file or folder 'absent\.onnx'"),
    ],
)
def test_what_cannot_be_served_is_told_apart(tmp_path: Path, make: Place, reason: str) -> None:
    with pytest.raises(LoadError, match=reason) as refusal:
        get_backend(None, make(tmp_path))
    assert str(tmp_path) not in str(refusal.value)


@pytest.mark.parametrize("name", BACKEND_NAMES)
def test_a_named_backend_is_taken_whatever_lies_there(tmp_path: Path, name: str) -> None:
    assert get_backend(name, tmp_path).name == name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("onnxruntim", "did you mean 'onnxruntime'"),
        ("tensorrt_llm", "use one of auto, onnxruntime, openvino, pytorch, sklearn, python, identity"),
    ],
)
def test_an_unknown_name_is_refused_with_the_near_ones(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(LoadError, match=hint):
        get_backend(name, tmp_path)


def test_what_was_chosen_loads(tmp_path: Path) -> None:
    path = onnx_models.write_model(tmp_path / "1", onnx_models.mlp()).parent
    assert get_backend(None, path).load(ModelSource("m", "1", path, ModelPolicy())).description.max_batch_size == 64


def test_engines_are_imported_when_a_model_needs_them(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from guepard.backends.registry import get_backend\n"
        "get_backend('identity', pathlib.Path('.'))\n"
        "get_backend('python', pathlib.Path('.'))\n"
        "assert 'onnxruntime' not in sys.modules\n"
        "get_backend('onnxruntime', pathlib.Path('.'))\n"
        "assert 'onnxruntime' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=60)

"""From a definition to a version that has proved itself, or to a reason why not."""

from pathlib import Path

import pytest
from onnx import helper

from guepard.core.engine_options import EngineOptions
from guepard.core.errors import LoadError
from guepard.core.model_config import InstanceGroup, ModelPolicy
from guepard.core.tensor import TensorSpec
from guepard.engine.model_loader import LoadedVersion, load_version
from guepard.engine.model_repository import ModelDefinition
from guepard.engine.resources import Resources
from tests.services import onnx_models
from tests.services.onnx_models import tensor


def load_onnx(folder: Path, model: bytes) -> LoadedVersion:
    path = onnx_models.write_model(folder / "m.onnx", model)
    return load_version(ModelDefinition("m", path, ModelPolicy()), "1", path, Resources(1, 2**30))


def identity_with_outputs(*names: str) -> bytes:
    node = helper.make_node("Identity", ["x"], ["y"])
    outputs = [tensor(name, "FP32", ["n", 4]) for name in names]
    return onnx_models.build([node], [tensor("x", "FP32", ["n", 4])], outputs)


def test_a_model_that_has_nothing_to_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="the model has no outputs, so there is nothing to answer"):
        load_onnx(tmp_path, identity_with_outputs())


def test_two_outputs_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="two outputs of the model have one name: y, y; give each its own"):
        load_onnx(tmp_path, identity_with_outputs("y", "y"))


def test_two_tensors_of_one_name_in_a_configuration_are_refused() -> None:
    inputs = (TensorSpec("x", "FP32", [1]), TensorSpec("x", "INT64", [1]))
    definition = ModelDefinition("m", Path(), ModelPolicy(), backend="identity", inputs=inputs)
    with pytest.raises(LoadError, match="one name"):
        load_version(definition, "1", Path(), Resources(1, 2**30))


def test_what_is_sound_is_loaded_and_warm(tmp_path: Path) -> None:
    loaded = load_onnx(tmp_path, identity_with_outputs("y"))
    assert [spec.name for spec in loaded.config.outputs] == ["y"]
    assert loaded.config.warmed_up


def load_on_threads(folder: Path, model: bytes, count: int, resources: Resources) -> LoadedVersion:
    path = onnx_models.write_model(folder / "m.onnx", model)
    group, engines = InstanceGroup(count, execution="thread"), EngineOptions(engine="onnxruntime")
    policy = ModelPolicy(max_batch_size=0, instance_group=group, engines=engines)
    return load_version(ModelDefinition("m", path, policy), "1", path, resources)


class TestLowMemory:
    LOW = Resources(4, 2**30, "low-memory")

    def test_one_instance_unless_more_are_asked_for(self, tmp_path: Path) -> None:
        assert load_on_threads(tmp_path, onnx_models.double(), 0, self.LOW).config.instance_count == 1
        assert load_on_threads(tmp_path, onnx_models.double(), 2, self.LOW).config.instance_count == 2

    def test_an_execution_has_the_thread_of_its_instance_alone(self, tmp_path: Path) -> None:
        assert load_on_threads(tmp_path, onnx_models.slow(steps=8), 1, self.LOW).cpus == 1


class TestTurns:
    """How many CPUs an execution takes a permit for."""

    def load(self, folder: Path, model: bytes, count: int = 0, cpus: int = 4) -> int:
        return load_on_threads(folder, model, count, Resources(cpus, 2**30)).cpus

    def test_one_for_each_of_its_threads(self, tmp_path: Path) -> None:
        assert self.load(tmp_path, onnx_models.slow(steps=8)) == 1
        assert self.load(tmp_path, onnx_models.slow(steps=8), count=2) == 2

    def test_none_for_executions_that_are_short(self, tmp_path: Path) -> None:
        assert self.load(tmp_path, onnx_models.double()) == 0

    def test_none_where_an_operator_wants_more_instances_than_cpus(self, tmp_path: Path) -> None:
        assert self.load(tmp_path, onnx_models.slow(steps=8), count=3, cpus=2) == 0

    def test_none_for_python_code_which_may_wait_for_others(self, tmp_path: Path) -> None:
        assert load_python(tmp_path, predict='__import__("time").sleep(0.003); return {"y": inputs["x"]}').cpus == 0


MODEL = """
import guepard


class M(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [1])]
    outputs = [guepard.Tensor("y", "FP32", [1])]

    def load(self, ctx):
        LOAD

    def predict(self, inputs, ctx):
        PREDICT
"""


def load_python(folder: Path, load: str = "pass", predict: str = 'return {"y": inputs["x"]}') -> LoadedVersion:
    path = folder / "m.py"
    path.write_text(MODEL.replace("LOAD", load).replace("PREDICT", predict))
    return load_version(ModelDefinition("m", path, ModelPolicy(), trusted=True), "1", path, Resources(1, 2**30))


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit", "GeneratorExit", "BaseException", "ValueError"])
def test_whatever_load_raises_is_a_reason(tmp_path: Path, raised: str) -> None:
    with pytest.raises(LoadError, match=raised):
        load_python(tmp_path, load=f"raise {raised}('secret')")


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "GeneratorExit", "BaseException"])
def test_so_is_what_no_exception_is_in_the_first_run(tmp_path: Path, raised: str) -> None:
    with pytest.raises(LoadError, match=f"loading failed: {raised}"):
        load_python(tmp_path, predict=f"raise {raised}('secret')")


def test_one_that_fails_every_sample_is_served_cold_but_replaces_none_that_works(tmp_path: Path) -> None:
    sound = load_python(tmp_path).config
    cold = load_python(tmp_path, predict="raise ValueError('no zeros, please')").config
    assert (sound.warmed_up, cold.warmed_up) == (True, False)
    path = tmp_path / "m.py"
    definition = ModelDefinition("m", path, ModelPolicy(), trusted=True)
    assert load_version(definition, "1", path, Resources(1, 2**30), replaces=cold)
    with pytest.raises(LoadError, match="the new version refuses every warm-up sample, and the one that serves does"):
        load_version(definition, "1", path, Resources(1, 2**30), replaces=sound)

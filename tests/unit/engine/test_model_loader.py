"""From a definition to a version that has proved itself, or to a reason why not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from guepard.backends.base import LoadedModel, ModelSource
from guepard.backends.onnxruntime import OnnxRuntimeBackend
from guepard.backends.onnxruntime_device_executor import DeviceExecutor
from guepard.core.engine_options import EngineOptions
from guepard.core.errors import LoadError
from guepard.core.model_config import InstanceGroup, ModelPolicy
from guepard.core.tensor import TensorSpec
from guepard.engine.model_loader import LoadedVersion, load_version
from guepard.engine.model_repository import ModelDefinition
from guepard.engine.resources import Resources
from guepard.memory.pinned_arena import PinnedArena
from guepard.protocols.oip_metadata import model_config
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


class Pinning:
    def pin(self, address: int, size_bytes: int) -> None: ...

    def unpin(self, address: int) -> None: ...


class OnGpus:
    """A backend whose models are said to be on GPUs, with executors that could make use of pinned memory."""

    name = "onnxruntime"

    def __init__(self, *gpus: int) -> None:
        self.gpus = gpus
        self.made: list[Any] = []

    def load(self, source: ModelSource) -> LoadedModel:
        model: Any = OnnxRuntimeBackend().load(replace(source, policy=ModelPolicy()))
        model.description = replace(model.description, gpus=self.gpus)
        make = model.executor

        def executor() -> DeviceExecutor:
            plain = make()
            session = plain._run.__self__
            self.made.append(DeviceExecutor(session, "m", model.description, Pinning()))  # type: ignore[arg-type]
            return self.made[-1]  # type: ignore[no-any-return]

        model.executor = executor
        return model  # type: ignore[no-any-return]


class TestOnGpus:
    def load(self, folder: Path, backend: OnGpus, group: InstanceGroup, patch: pytest.MonkeyPatch) -> LoadedVersion:
        patch.setattr("guepard.engine.model_loader.get_backend", lambda *_: backend)
        path = onnx_models.write_model(folder / "m.onnx", onnx_models.slow(steps=8))
        definition = ModelDefinition("m", path, ModelPolicy(instance_group=group))
        return load_version(definition, "1", path, Resources(4, 2**30))

    def test_one_instance_for_each_and_no_turns_for_its_cpus(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loaded = self.load(tmp_path, OnGpus(0, 3), InstanceGroup(kind="gpu", gpus=(0, 3)), monkeypatch)
        assert (loaded.config.gpus, loaded.config.instance_count, loaded.cpus) == ((0, 3), 2, 0)
        assert (loaded.wide, loaded.config.wide_reason) == (None, "")
        (group,) = model_config(loaded.config)["instance_group"]
        assert (group["kind"], group["gpus"], group["count"]) == ("KIND_GPU", [0, 3], 1)

    def test_as_many_as_are_asked_for_on_each(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        loaded = self.load(tmp_path, OnGpus(0, 1), InstanceGroup(3, "gpu", gpus=(0, 1)), monkeypatch)
        assert len(loaded.executors) == 6
        assert model_config(loaded.config)["instance_group"][0]["count"] == 3

    def test_inputs_are_gathered_in_pinned_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        backend = OnGpus(0)
        self.load(tmp_path, backend, InstanceGroup(2, "gpu"), monkeypatch)
        pools = {id(executor.buffers) for executor in backend.made}
        assert len(pools) == 2
        assert all(isinstance(executor.buffers.arena, PinnedArena) for executor in backend.made)

    def test_a_backend_that_places_nothing_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(LoadError, match=r"kind is gpu, and the onnxruntime backend places no models there"):
            self.load(tmp_path, OnGpus(), InstanceGroup(kind="gpu"), monkeypatch)

    def test_several_gpus_and_processes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from guepard.engine.model_loader import _check_gpus

        backend = OnGpus(0, 1)
        path = onnx_models.write_model(tmp_path / "m.onnx", onnx_models.double())
        policy = ModelPolicy(instance_group=InstanceGroup(execution="process", kind="gpu", gpus=(0, 1)))
        description = backend.load(ModelSource("m", "1", path, policy)).description
        with pytest.raises(LoadError, match="a process does not know which of them is its own"):
            _check_gpus(policy, description)


def test_on_the_cpu_the_kind_says_so(tmp_path: Path) -> None:
    (group,) = model_config(load_onnx(tmp_path, onnx_models.double()).config)["instance_group"]
    assert (group["kind"], group["gpus"]) == ("KIND_CPU", [])


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

"""Models for GPUs where there is none: what is refused, what is served without, and what sessions are made with.

Where a session is wanted, the CPU's provider goes by the name of CUDA's.
"""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from guepard.backends import onnxruntime_device
from guepard.backends.base import ModelSource
from guepard.backends.cuda_runtime import Gpu, NoGpu
from guepard.backends.onnxruntime import OnnxRuntimeBackend, OnnxRuntimeModel
from guepard.backends.onnxruntime_device import OnnxRuntimeDeviceModel, usable_plan
from guepard.backends.onnxruntime_device_executor import DeviceExecutor
from guepard.backends.onnxruntime_graph_executor import GraphExecutor
from guepard.backends.onnxruntime_providers import LONG_NAMES, ProviderPlan, plan_providers
from guepard.backends.provider_availability import Runtime
from guepard.core.engine_options import CudaOptions, EngineOptions, OnnxRuntimeOptions, Precision, TensorRtOptions
from guepard.core.errors import LoadError
from guepard.core.model_config import InstanceGroup, ModelPolicy
from tests.services import onnx_models
from tests.services.onnx_models import write_model

GPU = Gpu("a GPU", "9.0", 13_000)
ALL = list(LONG_NAMES.values())


def no_gpu() -> tuple[Gpu, ...]:
    raise NoGpu("NVIDIA's driver is not installed (libcuda.so.1)")


def with_gpus(*providers: str, count: int = 2) -> Runtime:
    return Runtime("onnxruntime-gpu", "1.31.1", "999.0", providers or ALL, lambda name: name, lambda: (GPU,) * count)


WITHOUT_GPU = with_gpus()._replace(find_gpus=no_gpu)


def source_of(
    path: Path,
    group: InstanceGroup | None = None,
    limit: int = 0,
    batch: int | None = None,
    precision: Precision | None = None,
    cache: Path | None = None,
    **options: Any,
) -> ModelSource:
    policy = ModelPolicy(
        max_batch_size=batch,
        instance_group=group or InstanceGroup(),
        engines=EngineOptions(onnxruntime=OnnxRuntimeOptions(**options)),
        gpu_memory_limit_bytes=limit,
    )
    return ModelSource("m", "1", path, policy, precision=precision, cache=cache)


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    return write_model(tmp_path / "m.onnx", onnx_models.mlp())


class TestWhatIsLeft:
    def test_all_of_it(self, mlp: Path) -> None:
        source = source_of(mlp, providers=("tensorrt", "cuda", "cpu"))
        plan = plan_providers(source.policy)
        assert usable_plan(plan, source, with_gpus()) == (plan, {})

    def test_a_provider_that_is_not_there_is_refused_with_reason_and_remedy(self, mlp: Path) -> None:
        source = source_of(mlp, providers=("tensorrt", "cuda", "cpu"))
        with pytest.raises(LoadError) as caught:
            usable_plan(plan_providers(source.policy), source, WITHOUT_GPU)
        assert str(caught.value) == (
            "tensorrt and cuda cannot be used: there is no GPU to use: NVIDIA's driver is not installed (libcuda.so.1)"
            "; or write onnxruntime.allow_fallback: true, which serves on what is left"
        )

    def test_what_is_left_serves_where_that_is_allowed(self, mlp: Path, caplog: pytest.LogCaptureFixture) -> None:
        source = source_of(mlp, providers=("tensorrt", "cuda", "cpu"), allow_fallback=True)
        runtime = with_gpus("CUDAExecutionProvider", "CPUExecutionProvider")
        with caplog.at_level(logging.WARNING):
            plan, facts = usable_plan(plan_providers(source.policy), source, runtime)
        assert plan == ProviderPlan(("cuda", "cpu"), (0,))
        assert facts["fallback"]["wanted"] == ["tensorrt", "cuda", "cpu"]
        assert facts["fallback"]["used"] == ["cuda", "cpu"]
        assert "is built without it" in facts["fallback"]["reason"]
        assert "model m runs on cuda without tensorrt: onnxruntime-gpu 1.31.1 is built without it" in caplog.text

    @pytest.mark.parametrize("providers", [("cuda",), ("tensorrt", "cuda", "cpu")])
    def test_the_cpu_is_always_left(self, mlp: Path, providers: Any) -> None:
        source = source_of(mlp, providers=providers, allow_fallback=True)
        plan, facts = usable_plan(plan_providers(source.policy), source, WITHOUT_GPU)
        assert plan == ProviderPlan(("cpu",))
        assert facts["fallback"]["used"] == ["cpu"]


class TestHere:
    """Really run with whatever ONNX Runtime is installed, where it has no GPU."""

    @pytest.fixture(autouse=True)
    def no_gpu_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("guepard.backends.cuda_runtime._DRIVER", "libthere-is-none.so.1")

    def test_it_is_refused(self, mlp: Path) -> None:
        with pytest.raises(LoadError, match=r"cuda cannot be used: .*; or write onnxruntime.allow_fallback: true"):
            OnnxRuntimeBackend().load(source_of(mlp, InstanceGroup(kind="gpu")))

    def test_it_is_served_on_the_cpu_where_that_is_allowed(self, mlp: Path) -> None:
        model = OnnxRuntimeBackend().load(source_of(mlp, InstanceGroup(kind="gpu"), allow_fallback=True))
        assert isinstance(model, OnnxRuntimeModel)
        assert (model.description.gpus, model.description.precision) == ((), "f32")
        assert model.description.engine_facts["fallback"]["used"] == ["cpu"]
        (y,) = model.executor().execute([np.zeros((2, 30), np.float32)], [])
        assert y.shape == (2, 2)

    def test_placement_on_request(self, mlp: Path) -> None:
        assert OnnxRuntimeBackend().load(source_of(mlp)).description.engine_facts == {}
        facts = OnnxRuntimeBackend().load(source_of(mlp, report_placement=True)).description.engine_facts
        assert facts["placement"]["nodes"] == {"cpu": 4}

    def test_the_cpu_computes_in_f32(self, mlp: Path) -> None:
        assert OnnxRuntimeBackend().load(source_of(mlp, precision="f32")).description.precision == "f32"
        with pytest.raises(LoadError, match=r"precision: bf16, and ONNX Runtime computes in f32 on the CPU"):
            OnnxRuntimeBackend().load(source_of(mlp, precision="bf16"))

    @pytest.mark.filterwarnings("ignore:Specified provider")
    def test_a_provider_that_onnx_runtime_drops_without_a_word_is_noticed(self, mlp: Path) -> None:
        """All seems to be there, and still the session has the CPU's provider alone."""
        with pytest.raises(LoadError, match=r"cuda could not be started.* run the model on cpu without a word"):
            load(source_of(mlp, providers=("cuda", "cpu")))


def load(source: ModelSource, runtime: Runtime | None = None) -> OnnxRuntimeDeviceModel:
    from guepard.backends.onnxruntime import _describe

    plan = plan_providers(source.policy)
    return OnnxRuntimeDeviceModel(
        source, [source.path], plan, lambda session: _describe(session, source), runtime or with_gpus(), {"more": 1}
    )


class TestOnTheCpuByAnotherName:
    @pytest.fixture(autouse=True)
    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        made: list[Any] = []
        real = ort.InferenceSession

        def make(path: str, options: Any, **arguments: Any) -> Any:
            made.append(arguments)
            providers = list(
                dict.fromkeys(each if isinstance(each, str) else each[0] for each in arguments["providers"])
            )
            return real(path, options, **(arguments | {"providers": providers}))

        monkeypatch.setitem(LONG_NAMES, "cuda", "CPUExecutionProvider")
        monkeypatch.setitem(LONG_NAMES, "tensorrt", "CPUExecutionProvider")
        monkeypatch.setattr(ort, "InferenceSession", make)
        return made

    def test_what_is_told_of_it(self, mlp: Path, caplog: pytest.LogCaptureFixture) -> None:
        model = load(source_of(mlp, InstanceGroup(2, "gpu", gpus=(1,)), 1 << 30, batch=8))
        description = model.description
        assert (description.gpus, description.precision, description.engine) == ((1,), "f32", "onnxruntime")
        assert description.engine_facts == {
            "more": 1,
            "providers": ["cpu"],
            "gpus": [{"number": 1, "name": "a GPU"}],
            "tf32": True,
            "gpu_memory_limit_bytes": 1 << 29,
            "placement": {"nodes": {"cpu": 4}, "on_cpu": {"Gemm": 2, "Relu": 1, "Softmax": 1}},
        }
        assert "model m: 4 of its 4 operators run on the CPU" in caplog.text

    def test_each_instance_has_a_session_of_its_own_and_they_take_turns_on_the_gpus(
        self, mlp: Path, stand_in: list[Any]
    ) -> None:
        model = load(source_of(mlp, InstanceGroup(kind="gpu", gpus=(0, 1))))
        executors = [model.executor() for _ in range(3)]
        assert all(type(executor) is DeviceExecutor for executor in executors)
        assert [made["providers"][0][1]["device_id"] for made in stand_in] == ["0", "1", "0"]
        assert all(made["enable_fallback"] == 0 for made in stand_in)
        x = np.random.default_rng(0).normal(size=(3, 30)).astype(np.float32)
        answers = [executor.execute([x], [])[0] for executor in executors]
        assert all(np.array_equal(answer, answers[0]) for answer in answers)
        model.trim()
        model.health()
        model.close()

    def test_texts_are_left_to_the_plain_executor(self, tmp_path: Path) -> None:
        path = write_model(tmp_path / "t.onnx", onnx_models.identity("BYTES", ["n", 1]))
        executor = load(source_of(path, InstanceGroup(kind="gpu"))).executor()
        assert not isinstance(executor, DeviceExecutor)
        assert executor.execute([np.array([[b"a"]], object)], [])[0].tolist() == [[b"a"]]

    def test_graphs_where_they_are_asked_for_and_shapes_are_few(self, mlp: Path, tmp_path: Path) -> None:
        asked: dict[str, Any] = {"cuda": CudaOptions(enable_cuda_graph=True), "providers": ("cuda", "cpu")}
        assert isinstance(load(source_of(mlp, batch=8, **asked)).executor(), GraphExecutor)
        path = write_model(tmp_path / "free.onnx", onnx_models.identity("FP32", ["n", "m"]))
        with pytest.raises(LoadError, match="enable_cuda_graph needs shapes that are known"):
            load(source_of(path, batch=8, **asked))

    def test_a_limit_that_cannot_hold_the_weights(self, mlp: Path) -> None:
        with pytest.raises(LoadError, match="gpu_memory_limit"):
            load(source_of(mlp, InstanceGroup(kind="gpu"), 100))

    def test_a_strict_plan_says_what_to_add(self, mlp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if "AzureExecutionProvider" not in ort.get_available_providers():
            pytest.skip("needs a provider that takes none of the operators: onnxruntime has one, onnxruntime-gpu none")
        monkeypatch.setitem(LONG_NAMES, "cuda", "AzureExecutionProvider")
        with pytest.raises(LoadError, match=r"explicitly disabled by the user.; .*add cpu$"):
            load(source_of(mlp, providers=("cuda",)))

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        path = tmp_path / "m.onnx"
        path.write_bytes(onnx_models.mlp()[:-20])
        with pytest.raises(LoadError, match=r"m\.onnx is not a valid ONNX model"):
            load(source_of(path, InstanceGroup(kind="gpu")))

    def test_precision_is_that_of_the_weights(self, tmp_path: Path, mlp: Path) -> None:
        path = write_model(tmp_path / "half.onnx", onnx_models.half_mlp())
        assert load(source_of(path, InstanceGroup(kind="gpu"))).description.precision == "f16"
        with pytest.raises(LoadError, match="written in f16"):
            load(source_of(path, InstanceGroup(kind="gpu"), precision="f32"))

    class TestTensorRt:
        def test_its_profile_follows_from_the_model(self, mlp: Path, stand_in: list[Any]) -> None:
            load(source_of(mlp, providers=("tensorrt", "cpu"), batch=8))
            options = stand_in[-1]["providers"][0][1]
            assert options["trt_profile_min_shapes"] == "x:1x30"
            assert options["trt_profile_opt_shapes"] == options["trt_profile_max_shapes"] == "x:8x30"
            assert "trt_engine_cache_path" not in options

        def test_engines_are_kept_by_all_that_they_depend_on(
            self, mlp: Path, tmp_path: Path, stand_in: list[Any], monkeypatch: pytest.MonkeyPatch
        ) -> None:
            monkeypatch.setattr(onnxruntime_device, "tensorrt_version", lambda: "101300")
            cache = tmp_path / "cache"
            cache.mkdir(mode=0o700)

            def folders(**changes: Any) -> tuple[str, str]:
                load(source_of(mlp, cache=cache, providers=("tensorrt", "cpu"), **changes))
                options = stand_in[-1]["providers"][0][1]
                return options["trt_engine_cache_path"], options["trt_timing_cache_path"]

            engines, timings = folders(batch=8)
            assert Path(engines).parent == cache / "tensorrt" / "engines"
            assert Path(timings).parent == cache / "tensorrt" / "timings"
            assert folders(batch=8) == (engines, timings)
            other = folders(batch=16)
            assert other[0] != engines
            assert other[1] == timings
            assert folders(batch=8, precision="f16")[0] not in (engines, other[0])

        def test_a_version_that_is_not_known_keeps_none(
            self, mlp: Path, tmp_path: Path, stand_in: list[Any], caplog: pytest.LogCaptureFixture
        ) -> None:
            load(source_of(mlp, cache=tmp_path, providers=("tensorrt", "cpu"), batch=8))
            assert "trt_engine_cache_path" not in stand_in[-1]["providers"][0][1]
            assert "no engines are kept" in caplog.text

        def test_a_cache_that_cannot_be_made_is_no_reason_to_fail(
            self, mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
        ) -> None:
            monkeypatch.setattr(onnxruntime_device, "tensorrt_version", lambda: "101300")
            (tmp_path / "file").touch()
            load(source_of(mlp, cache=tmp_path / "file", providers=("tensorrt", "cpu"), batch=8))
            assert "TensorRT's engines are not kept" in caplog.text

        def test_one_graph_for_one_shape(self, mlp: Path) -> None:
            options: dict[str, Any] = {
                "providers": ("tensorrt", "cpu"),
                "tensorrt": TensorRtOptions(enable_cuda_graph=True),
            }
            assert isinstance(load(source_of(mlp, batch=1, **options)).executor(), GraphExecutor)
            with pytest.raises(LoadError, match="keeps one graph"):
                load(source_of(mlp, batch=8, **options))


def test_models_for_the_cpu_do_not_pay_for_any_of_it() -> None:
    code = "import sys, guepard.backends.onnxruntime; print([m for m in sys.modules if 'device' in m or 'cuda' in m])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert [name for name in found.split("'") if name.startswith("guepard.")] == []

"""Options of a model as ONNX Runtime's providers."""

from pathlib import Path
from typing import Any

import pytest

from guepard.backends.base import ModelSource
from guepard.backends.onnxruntime_providers import (
    ProviderPlan,
    TensorRtFiles,
    check_memory,
    check_precision,
    cuda_options,
    plan_providers,
    session_providers,
    tensorrt_options,
)
from guepard.core.engine_options import (
    CudaOptions,
    EngineOptions,
    OnnxRuntimeOptions,
    Precision,
    Provider,
    TensorRtOptions,
)
from guepard.core.errors import LoadError
from guepard.core.model_config import InstanceGroup, ModelPolicy

GIB = 1 << 30


def policy(group: InstanceGroup | None = None, limit: int = 0, **options: Any) -> ModelPolicy:
    return ModelPolicy(
        instance_group=group or InstanceGroup(),
        engines=EngineOptions(onnxruntime=OnnxRuntimeOptions(**options)),
        gpu_memory_limit_bytes=limit,
    )


class TestPlan:
    def test_without_a_word_all_is_on_the_cpu(self) -> None:
        assert plan_providers(policy()) == ProviderPlan(("cpu",))
        assert plan_providers(policy(InstanceGroup(kind="cpu"))).on_gpu == ()

    def test_a_model_for_a_gpu_is_for_cuda_and_the_first_one(self) -> None:
        assert plan_providers(policy(InstanceGroup(kind="gpu"))) == ProviderPlan(("cuda", "cpu"), (0,))

    @pytest.mark.parametrize(
        ("group", "device", "gpus"),
        [
            (InstanceGroup(), None, (0,)),
            (InstanceGroup(), 3, (3,)),
            (InstanceGroup(kind="gpu", gpus=(2, 5)), None, (2, 5)),
            (InstanceGroup(kind="gpu", gpus=(2,)), 2, (2,)),
        ],
    )
    def test_which_gpus(self, group: InstanceGroup, device: int | None, gpus: tuple[int, ...]) -> None:
        assert plan_providers(policy(group, providers=("cuda", "cpu"), device_id=device)).gpus == gpus

    def test_without_cpu_nothing_may_run_there(self) -> None:
        assert plan_providers(policy(providers=("tensorrt", "cuda"))).is_strict
        assert not plan_providers(policy(providers=("tensorrt", "cuda", "cpu"))).is_strict

    @pytest.mark.parametrize(("count", "share"), [(0, GIB), (1, GIB), (4, GIB // 4)])
    def test_the_limit_is_shared_out_among_the_instances_of_a_gpu(self, count: int, share: int) -> None:
        plan = plan_providers(policy(InstanceGroup(count, gpus=(0, 1)), GIB, providers=("cuda",)))
        assert plan.memory_bytes == share

    def test_the_first_instances_lie_on_different_gpus(self) -> None:
        plan = ProviderPlan(("cuda",), (4, 7), 2)
        assert [plan.gpu_of(number) for number in range(4)] == [4, 7, 4, 7]


class TestMemory:
    def test_room_for_the_weights_is_enough(self) -> None:
        check_memory(ProviderPlan(("cuda",), (0,), 1, GIB), GIB, GIB)
        check_memory(ProviderPlan(("cuda",), (0,), 1, 0), 0, GIB)

    def test_a_share_below_the_weights_is_refused_with_both_figures(self) -> None:
        with pytest.raises(LoadError) as caught:
            check_memory(ProviderPlan(("cuda",), (0,), 4, GIB // 4), GIB, GIB // 2)
        assert str(caught.value) == (
            "gpu_memory_limit is 1024 MiB, 256 MiB for each of 4 instances, and the weights alone take 512 MiB; "
            "raise it or lower instance_group.count"
        )

    def test_one_instance_has_no_share(self) -> None:
        with pytest.raises(LoadError, match=r"^gpu_memory_limit is 1 MiB, and the weights alone take 2 MiB; raise it$"):
            check_memory(ProviderPlan(("cuda",), (0,), 1, 1 << 20), 1 << 20, 2 << 20)


class TestCuda:
    def test_the_defaults(self) -> None:
        assert cuda_options(CudaOptions(), None, 0, 0) == {
            "device_id": "0",
            "arena_extend_strategy": "kNextPowerOfTwo",
            "cudnn_conv_algo_search": "HEURISTIC",
            "do_copy_in_default_stream": "1",
            "use_tf32": "1",
        }

    def test_everything_said(self) -> None:
        options = CudaOptions("same_as_requested", "exhaustive", False, True, {"prefer_nhwc": "1"})
        assert cuda_options(options, None, 3, GIB) == {
            "device_id": "3",
            "arena_extend_strategy": "kSameAsRequested",
            "cudnn_conv_algo_search": "EXHAUSTIVE",
            "do_copy_in_default_stream": "1",
            "use_tf32": "0",
            "gpu_mem_limit": str(GIB),
            "enable_cuda_graph": "1",
            "prefer_nhwc": "1",
        }

    @pytest.mark.parametrize(
        ("said", "precision", "bit"), [(None, None, "1"), (None, "f32", "0"), (True, "f32", "1"), (False, None, "0")]
    )
    def test_full_precision_rules_tf32_out(self, said: bool | None, precision: Precision | None, bit: str) -> None:
        assert cuda_options(CudaOptions(use_tf32=said), precision, 0, 0)["use_tf32"] == bit


class TestTensorRt:
    def test_the_defaults_leave_everything_to_it(self) -> None:
        assert tensorrt_options(TensorRtOptions(), None, 0, 0, TensorRtFiles()) == {"device_id": "0"}

    def test_everything_said(self) -> None:
        options = TensorRtOptions(
            max_workspace_size_bytes=GIB,
            builder_optimization_level=0,
            int8=True,
            enable_cuda_graph=True,
            options={"trt_sparsity_enable": "True"},
        )
        files = TensorRtFiles("/e", "/t", "x:1x3", "x:4x3", "x:8x3")
        assert tensorrt_options(options, "f16", 1, 0, files) == {
            "device_id": "1",
            "trt_max_workspace_size": str(GIB),
            "trt_fp16_enable": "True",
            "trt_int8_enable": "True",
            "trt_builder_optimization_level": "0",
            "trt_engine_cache_enable": "True",
            "trt_engine_cache_path": "/e",
            "trt_timing_cache_enable": "True",
            "trt_timing_cache_path": "/t",
            "trt_profile_min_shapes": "x:1x3",
            "trt_profile_opt_shapes": "x:4x3",
            "trt_profile_max_shapes": "x:8x3",
            "trt_cuda_graph_enable": "True",
            "trt_sparsity_enable": "True",
        }

    @pytest.mark.parametrize(("precision", "key"), [("f16", "trt_fp16_enable"), ("bf16", "trt_bf16_enable")])
    def test_precision(self, precision: Precision, key: str) -> None:
        assert tensorrt_options(TensorRtOptions(), precision, 0, 0, TensorRtFiles())[key] == "True"
        assert "trt_fp16_enable" not in tensorrt_options(TensorRtOptions(), "f32", 0, 0, TensorRtFiles())

    @pytest.mark.parametrize(("asked", "limit", "size"), [(0, 5, "5"), (9, 5, "5"), (3, 5, "3"), (9, 0, "9")])
    def test_scratch_space_stays_within_the_limit(self, asked: int, limit: int, size: str) -> None:
        options = TensorRtOptions(max_workspace_size_bytes=asked)
        assert tensorrt_options(options, None, 0, limit, TensorRtFiles())["trt_max_workspace_size"] == size

    def test_caches_that_are_off_are_not_named(self) -> None:
        options = TensorRtOptions(engine_cache=False, timing_cache=False)
        assert tensorrt_options(options, None, 0, 0, TensorRtFiles("/e", "/t")) == {"device_id": "0"}


def test_providers_in_their_order_and_the_cpu_only_where_it_may_be() -> None:
    source = ModelSource("m", "1", Path("m.onnx"), policy(providers=("tensorrt", "cuda", "cpu")))
    plan = plan_providers(source.policy)
    providers = session_providers(plan, source, 2, TensorRtFiles())
    assert [name for name, _ in providers] == [
        "TensorrtExecutionProvider",
        "CUDAExecutionProvider",
        "CPUExecutionProvider",
    ]
    assert [options.get("device_id") for _, options in providers] == ["2", "2", None]
    strict = session_providers(ProviderPlan(("cuda",), (0,)), source, 0, TensorRtFiles())
    assert [name for name, _ in strict] == ["CUDAExecutionProvider"]


class TestPrecision:
    @pytest.mark.parametrize(
        ("providers", "asked", "weights", "found"),
        [
            (("cpu",), None, "f32", "f32"),
            (("cpu",), "f32", "f16", "f32"),
            (("cuda", "cpu"), None, "f16", "f16"),
            (("cuda", "cpu"), "f16", "f16", "f16"),
            (("cuda", "cpu"), None, "f32", "f32"),
            (("tensorrt", "cpu"), None, "f32", "f32"),
            (("tensorrt", "cpu"), "bf16", "f32", "bf16"),
            (("tensorrt", "cpu"), "f16", "f16", "f16"),
        ],
    )
    def test_what_a_model_is_computed_in(
        self, providers: tuple[Provider, ...], asked: Precision | None, weights: Precision, found: Precision
    ) -> None:
        assert check_precision(ProviderPlan(providers), asked, weights) == found

    @pytest.mark.parametrize("asked", ["f16", "bf16"])
    def test_the_cpu_has_f32_alone(self, asked: Precision) -> None:
        with pytest.raises(LoadError, match=rf"precision: {asked}.*f32 on the CPU; use engine: openvino.*tensorrt"):
            check_precision(ProviderPlan(("cpu",)), asked, "f32")

    def test_cuda_keeps_to_the_model(self) -> None:
        with pytest.raises(LoadError, match=r"precision: f16, and the model is written in f32.*cuda.*add tensorrt"):
            check_precision(ProviderPlan(("cuda", "cpu")), "f16", "f32")

    @pytest.mark.parametrize("providers", [("cuda", "cpu"), ("tensorrt", "cuda", "cpu")])
    def test_half_weights_cannot_be_whole_again(self, providers: tuple[Provider, ...]) -> None:
        with pytest.raises(LoadError, match=r"precision: f32, and the model is written in f16.*converted from"):
            check_precision(ProviderPlan(providers), "f32", "f16")

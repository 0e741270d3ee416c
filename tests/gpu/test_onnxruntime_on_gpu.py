"""ONNX Runtime's CUDA and TensorRT providers on a real GPU: `make test-gpu`.

Nobody has run these yet: they were written on machines without a GPU. What they need is in the reason of each skip.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from guepard.backends.onnxruntime_device_executor import DeviceExecutor
from guepard.backends.onnxruntime_graph_executor import GraphExecutor
from guepard.core.engine_options import CudaOptions, TensorRtOptions
from guepard.core.errors import GuepardError, LoadError
from guepard.engine.pinned_buffers import pin_buffers
from guepard.testing.running_server import RunningServer
from tests.gpu.devices import answers, loaded, needs_cuda, needs_tensorrt
from tests.services import onnx_models
from tests.services.onnx_models import build, tensor, write_model

pytestmark = pytest.mark.gpu

CUDA: Any = ("cuda", "cpu")
TENSORRT: Any = ("tensorrt", "cuda", "cpu")
CLOSE = (1e-2, 1e-3)  # relative and absolute, for TF32
HALF = (5e-2, 1e-2)


def check(found: Any, expected: Any, tolerance: tuple[float, float] = CLOSE) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance[0], atol=tolerance[1])


def convolutions(layers: int = 12, channels: int = 32) -> bytes:
    """Input `x` [n, 3, 32, 32] → `y` [n, channels]."""
    random = np.random.default_rng(0)
    weights: dict[str, Any] = {}
    nodes, before, depth = [], "x", 3
    for layer in range(layers):
        weights[f"w{layer}"] = (random.normal(size=(channels, depth, 3, 3)) / (3 * depth**0.5)).astype(np.float32)
        nodes.append(helper.make_node("Conv", [before, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        before, depth = f"r{layer}", channels
    nodes.append(helper.make_node("ReduceMean", [before], ["y"], axes=[2, 3], keepdims=0))
    return build(nodes, [tensor("x", "FP32", ["n", 3, 32, 32])], [tensor("y", "FP32", ["n", channels])], weights)


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    return write_model(tmp_path / "mlp.onnx", onnx_models.mlp())


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_model(tmp_path / "images.onnx", convolutions())


def rows(number: int, *dims: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(number, *dims)).astype(np.float32)


def of_cpu(path: Path, *inputs: Any) -> list[np.ndarray]:
    with loaded(path) as model:
        return answers(model, *inputs)


@needs_cuda
class TestCuda:
    @pytest.mark.parametrize("number", [1, 7, 64])
    def test_answers_are_those_of_the_cpu(self, images: Path, number: int) -> None:
        x = rows(number, 3, 32, 32)
        with loaded(images, providers=CUDA) as model:
            (found,) = answers(model, x)
        check(found, of_cpu(images, x)[0])

    def test_full_precision_is_closer_than_tf32(self, images: Path) -> None:
        x = rows(8, 3, 32, 32)
        with loaded(images, providers=CUDA, precision="f32") as model:
            assert model.description.engine_facts["tf32"] is False
            check(answers(model, x)[0], of_cpu(images, x)[0], (1e-4, 1e-5))

    def test_half_precision_of_the_weights(self, tmp_path: Path) -> None:
        path = write_model(tmp_path / "half.onnx", onnx_models.half_mlp())
        x = rows(8, 64).astype(np.float16)
        with loaded(path, providers=CUDA) as model:
            assert model.description.precision == "f16"
            check(answers(model, x)[0], of_cpu(path, x)[0], HALF)

    def test_all_of_it_is_placed_there(self, mlp: Path) -> None:
        with loaded(mlp, providers=CUDA) as model:
            facts = model.description.engine_facts
        assert facts["providers"][0] == "cuda"
        assert facts["placement"]["on_cpu"] == {}
        assert facts["gpus"][0]["number"] == 0

    def test_pinned_inputs_are_read_where_they_lie(self, images: Path) -> None:
        x = rows(64, 3, 32, 32)
        with loaded(images, providers=CUDA) as model:
            executor = model.executor()
            assert isinstance(executor, DeviceExecutor)
            pin_buffers(executor)
            assert executor.buffers is not None
            gathered = np.frombuffer(executor.buffers.lease(x.nbytes), np.float32).reshape(x.shape)
            gathered[:] = x
            assert executor.buffers.statistics().unpooled_count == 0
            check(executor.execute([gathered], [])[0], of_cpu(images, x)[0])

    def test_instances_run_side_by_side(self, images: Path, record_property: Any) -> None:
        x = rows(2, 3, 32, 32)
        with loaded(images, providers=CUDA, count=2) as model:
            executors = [model.executor(), model.executor()]
            expected = executors[0].execute([x], [])[0]

            def run(executor: Any) -> float:
                started = time.perf_counter()
                for _ in range(200):
                    check(executor.execute([x], [])[0], expected)
                return time.perf_counter() - started

            alone = run(executors[0])
            with ThreadPoolExecutor(2) as pool:
                together = max(pool.map(run, executors))
        record_property("together_by_alone", together / alone)
        assert together < 3 * alone  # in turns it is 2; streams of their own make it less

    def test_a_limit_is_kept_to(self, tmp_path: Path) -> None:
        path = write_model(tmp_path / "bulky.onnx", onnx_models.bulky())
        x = np.zeros((64, 1), np.float32)  # takes 256 MiB twice
        with loaded(path, providers=CUDA, limit=64 << 20) as model, pytest.raises(GuepardError):
            answers(model, x)
        with loaded(path, providers=CUDA, limit=2 << 30) as model:
            check(answers(model, x)[0], 0, (0, 1e-5))

    def test_a_gpu_that_is_not_there_is_refused(self, mlp: Path) -> None:
        with pytest.raises(LoadError, match="GPU 900 was asked for"), loaded(mlp, providers=CUDA, device_id=900):
            pass

    def test_what_only_the_cpu_has_is_told_or_refused(self, tmp_path: Path) -> None:
        nodes = [
            helper.make_node("Det", ["x"], ["d"]),  # the CUDA provider has no kernel for it
            helper.make_node("Add", ["d", "d"], ["y"]),
        ]
        path = write_model(
            tmp_path / "det.onnx", build(nodes, [tensor("x", "FP32", ["n", 3, 3])], [tensor("y", "FP32", ["n"])])
        )
        with loaded(path, providers=CUDA) as model:
            assert model.description.engine_facts["placement"]["on_cpu"] == {"Det": 1}
            check(answers(model, rows(4, 3, 3))[0], of_cpu(path, rows(4, 3, 3))[0])
        with pytest.raises(LoadError, match=r"add cpu$"), loaded(path, providers=("cuda",)):
            pass


@needs_cuda
class TestCudaGraph:
    def test_every_batch_size_and_thread(self, mlp: Path) -> None:
        options = CudaOptions(enable_cuda_graph=True)
        with loaded(mlp, providers=CUDA, batch=16, cuda=options) as model:
            executor = model.executor()
            assert isinstance(executor, GraphExecutor)

            def run() -> None:
                for number in (1, 3, 16, 5, 2, 3):
                    x = rows(number, 30)
                    check(executor.execute([x], [])[0], of_cpu(mlp, x)[0])

            run()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(run).result()
            assert not executor._is_off

    def test_beside_another_model(self, mlp: Path, images: Path) -> None:
        """A capture has CUDA to itself, however busy others are."""
        x = rows(2, 3, 32, 32)
        options = CudaOptions(enable_cuda_graph=True)
        with loaded(images, providers=CUDA) as other, loaded(mlp, providers=CUDA, batch=16, cuda=options) as model:
            busy, executor = other.executor(), model.executor()
            with ThreadPoolExecutor(1) as pool:
                running = pool.submit(lambda: [busy.execute([x], []) for _ in range(300)])
                for number in range(1, 17):
                    executor.execute([rows(number, 30)], [])
                running.result()
            assert isinstance(executor, GraphExecutor)
            assert not executor._is_off


@needs_tensorrt
class TestTensorRt:
    @pytest.mark.parametrize("number", [1, 5, 8])
    def test_answers_are_those_of_the_cpu(self, images: Path, number: int) -> None:
        x = rows(number, 3, 32, 32)
        with loaded(images, providers=TENSORRT, batch=8) as model:
            assert model.description.engine_facts["placement"]["nodes"].get("tensorrt")
            check(answers(model, x)[0], of_cpu(images, x)[0])

    def test_half_precision(self, images: Path) -> None:
        x = rows(8, 3, 32, 32)
        with loaded(images, providers=TENSORRT, batch=8, precision="f16") as model:
            assert model.description.precision == "f16"
            check(answers(model, x)[0], of_cpu(images, x)[0], HALF)

    def test_the_second_load_finds_the_engine(self, images: Path, tmp_path: Path) -> None:
        cache = tmp_path / "cache"
        cache.mkdir(mode=0o700)
        durations, engines = [], []
        for _ in range(2):
            started = time.perf_counter()
            with loaded(images, providers=TENSORRT, batch=8, cache=cache) as model:
                answers(model, rows(8, 3, 32, 32))
            durations.append(time.perf_counter() - started)
            engines.append({file: file.stat().st_mtime_ns for file in cache.glob("tensorrt/engines/*/*.engine")})
        assert engines[0]
        assert engines[1] == engines[0]
        assert durations[1] < 0.7 * durations[0]

    def test_one_graph(self, images: Path) -> None:
        options = TensorRtOptions(enable_cuda_graph=True)
        with loaded(images, providers=("tensorrt",), batch=1, tensorrt=options) as model:
            executor = model.executor()
            assert isinstance(executor, GraphExecutor)
            for seed in range(4):
                x = np.random.default_rng(seed).normal(size=(1, 3, 32, 32)).astype(np.float32)
                check(executor.execute([x], [])[0], of_cpu(images, x)[0])
            assert not executor._is_off


@needs_cuda
def test_a_real_server(mlp: Path, tmp_path: Path) -> None:
    file = tmp_path / "guepard.yaml"
    file.write_text(f"models: [{{name: m, path: {mlp}, instance_group: {{kind: KIND_GPU, gpus: [0]}}}}]\n")
    x = rows(3, 30)
    with RunningServer("--config", file) as server:
        (group,) = server.request("GET", "/v2/models/m/config").json["instance_group"]
        assert (group["kind"], group["gpus"]) == ("KIND_GPU", [0])
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, 30], "data": x.flatten().tolist()}]}
        answer = server.infer("m", body)
    found = np.array(answer.json["outputs"][0]["data"]).reshape(3, 2)
    check(found, of_cpu(mlp, x)[0])

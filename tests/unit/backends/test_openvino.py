"""The OpenVINO backend on real compiled models, beside ONNX Runtime."""

import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from numpy.typing import NDArray
from onnx import helper

from guepard.backends.base import Executor, ModelSource
from guepard.backends.onnxruntime import OnnxRuntimeBackend
from guepard.backends.openvino import OpenVinoBackend, OpenVinoModel
from guepard.core.datatypes import DATATYPES
from guepard.core.engine_options import EngineOptions, OpenVinoOptions
from guepard.core.errors import Cancelled, InputError, LoadError, ModelError
from guepard.core.model_config import ModelDescription, ModelPolicy
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.response import NOBODY
from tests.services import onnx_models
from tests.services.onnx_models import EXTERNAL_WEIGHTS, build, tensor, write_model

Load = Callable[..., OpenVinoModel]
GIB = 1 << 30


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    models = []

    def load(model: bytes, *, options: OpenVinoOptions | None = None, **source: Any) -> OpenVinoModel:
        path = write_model(tmp_path, model)
        policy = ModelPolicy(engines=EngineOptions(openvino=options or OpenVinoOptions()))
        models.append(OpenVinoBackend().load(ModelSource("m", "1", path, policy, **source)))
        return models[-1]

    yield load
    for model in models:
        model.trim()
        model.health()
        model.close()


def reference(path: Path) -> ModelDescription:
    return OnnxRuntimeBackend().load(ModelSource("m", "1", path, ModelPolicy())).description


def run(executor: Executor, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
    return list(executor.execute(inputs, []))


def heavy(seed: int) -> bytes:
    """y = x times a matrix of 4 MiB and a little more."""
    weights = {"w": np.random.default_rng(seed).normal(size=(1_025, 1_025)).astype(np.float32)}
    x, y = tensor("x", "FP32", ["n", 1_025]), tensor("y", "FP32", ["n", 1_025])
    return build([helper.make_node("MatMul", ["x", "w"], ["y"])], [x], [y], weights)


def unlike_lengths() -> bytes:
    """y = x + z, whose lengths may differ, and then do not fit."""
    nodes = [helper.make_node("Add", ["x", "z"], ["y"])]
    inputs = [tensor("x", "FP32", ["n", "a"]), tensor("z", "FP32", ["n", "b"])]
    return build(nodes, inputs, [tensor("y", "FP32", ["n", "c"])])


MODELS = {
    "mlp": onnx_models.mlp,
    "double": onnx_models.double,
    "two outputs": onnx_models.two_outputs,
    "fixed batch": onnx_models.fixed_batch,
    "hidden fixed batch": onnx_models.hidden_fixed_batch,
    "lookup": onnx_models.lookup,
    "masked mean": onnx_models.masked_mean,
    "encoder": onnx_models.encoder,
    "divide": onnx_models.divide,
    "attention": onnx_models.attention,
    "initializer among the inputs": onnx_models.initializer_as_input,
    "running sum": onnx_models.running_sum,
    "batch mixing": onnx_models.batch_mixing,
}


class TestDescription:
    @pytest.mark.parametrize("name", MODELS)
    def test_clients_see_the_model_that_onnx_runtime_shows(self, load: Load, tmp_path: Path, name: str) -> None:
        here = load(MODELS[name]()).description
        there = reference(tmp_path / "model.onnx")
        assert (here.inputs, here.outputs) == (there.inputs, there.outputs)
        assert (here.max_batch_size, here.batch_verified) == (there.max_batch_size, there.batch_verified)
        assert (here.padding, here.idempotent, here.releases_gil) == (there.padding, there.idempotent, True)
        assert (here.platform, here.backend, here.engine, here.precision) == (
            "openvino_onnx",
            "openvino",
            "openvino",
            "f32",
        )

    def test_metadata_of_the_file_tells_of_padding(self, load: Load, tmp_path: Path) -> None:
        x = tensor("x", "FP32", ["n", "length"])
        node = helper.make_node("Identity", ["x"], ["y"])
        metadata = {"guepard.padding": '{"inputs": {"x": 0}}'}
        model = load(build([node], [x], [tensor("y", "FP32", ["n", "length"])], metadata=metadata))
        assert model.description.padding == reference(tmp_path / "model.onnx").padding
        assert model.description.padding is not None
        assert model.description.padding.outputs == {"y": 0}

    def test_shapes_that_the_file_leaves_out_follow_from_the_graph(self, load: Load, tmp_path: Path) -> None:
        weights = {"w": np.ones((4, 7), np.float32)}
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
        model = load(build([node], [tensor("x", "FP32", ["n", 4])], [tensor("y", "FP32", None)], weights))
        assert model.description.outputs == reference(tmp_path / "model.onnx").outputs
        assert model.description.outputs[0].dims == (7,)

    def test_the_facts_are_those_of_the_compiled_model(self, load: Load) -> None:
        facts = load(onnx_models.mlp(), threads=1, cpus=2).description.engine_facts
        assert facts["version"] == openvino.__version__.partition("-")[0]
        assert (facts["num_streams"], facts["inference_num_threads"]) == (2, 2)
        assert facts["from_cache"] is False


class TestAnswers:
    @pytest.mark.parametrize("datatype", [name for name in DATATYPES if name not in ("BYTES", "FP64")])
    def test_every_datatype_comes_back_as_it_went(self, load: Load, datatype: str) -> None:
        model = load(onnx_models.identity(datatype, ["n", 3]))
        value = np.array([[0, 1, 1], [1, 0, 1]]).astype(DATATYPES[datatype].dtype)
        if datatype == "BF16":
            value = np.array([[0x3F80, 0xC000, 0], [0x4000, 0x3F80, 0x8000]], np.uint16)
        value.flags.writeable = False
        (answer,) = run(model.executor(), value)
        assert answer.dtype == DATATYPES[datatype].dtype
        assert answer.tobytes() == value.tobytes()

    @pytest.mark.parametrize("name", ["mlp", "two outputs", "masked mean", "lookup", "encoder", "attention"])
    def test_they_are_those_of_onnx_runtime(self, load: Load, tmp_path: Path, name: str) -> None:
        model = load(MODELS[name]())
        other = OnnxRuntimeBackend().load(ModelSource("m", "1", tmp_path / "model.onnx", ModelPolicy()))
        random = np.random.default_rng(3)
        inputs = [
            random.integers(1, 9, (5, *[6 if dim < 0 else dim for dim in spec.dims])).astype(spec.datatype.dtype)
            for spec in model.description.inputs
        ]
        for here, there in zip(run(model.executor(), *inputs), run(other.executor(), *inputs), strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("shape", [(0, 4), (1, 4), (65, 4)])
    def test_empty_and_large_batches(self, load: Load, shape: tuple[int, ...]) -> None:
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        (answer,) = run(load(onnx_models.double()).executor(), x)
        np.testing.assert_array_equal(answer, 2 * x)

    def test_an_answer_is_not_touched_by_the_next_run(self, load: Load) -> None:
        executor = load(onnx_models.double()).executor()
        first = run(executor, np.ones((2, 4), np.float32))
        run(executor, np.full((2, 4), 5, np.float32))
        np.testing.assert_array_equal(first[0], np.full((2, 4), 2, np.float32))

    def test_inputs_that_are_views_are_neither_copied_nor_written_to(self, load: Load) -> None:
        executor = load(onnx_models.double()).executor()
        body = np.arange(8, dtype=np.float32).tobytes()
        view = np.frombuffer(body, np.float32).reshape(2, 4)
        np.testing.assert_array_equal(run(executor, view)[0], 2 * view)
        assert body == np.arange(8, dtype=np.float32).tobytes()
        askew = np.frombuffer(b"." + body, np.uint8)[1:].view(np.float32).reshape(2, 4)
        np.testing.assert_array_equal(run(executor, askew)[0], 2 * view)
        spread = np.arange(16, dtype=np.float32).reshape(2, 8)[:, ::2]
        np.testing.assert_array_equal(run(executor, spread)[0], 2 * spread)

    def test_executors_of_one_model_run_side_by_side(self, load: Load) -> None:
        model = load(onnx_models.double(), threads=1, cpus=2)
        executors = [model.executor() for _ in range(4)]

        def work(number: int) -> bool:
            x = np.full((3, 4), number, np.float32)
            return all(bool((run(executors[number], x)[0] == 2 * number).all()) for _ in range(300))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))

    def test_a_wide_executor_says_the_same(self, load: Load) -> None:
        model = load(onnx_models.mlp(), threads=1, cpus=2, memory_bytes=GIB)
        wide = model.wide_executor()
        assert wide is not None
        x = np.random.default_rng(0).normal(size=(4, 30)).astype(np.float32)
        np.testing.assert_allclose(run(wide, x)[0], run(model.executor(), x)[0], rtol=1e-5)
        assert load(onnx_models.mlp(), threads=2, cpus=2, memory_bytes=GIB).wide_executor() is None
        assert load(onnx_models.mlp(), threads=1, cpus=2, memory_bytes=1 << 10).wide_executor() is None


class TestValues:
    @pytest.mark.parametrize(("value", "row"), [(10, 1), (-11, 1), (2**40, 1)])
    def test_one_beyond_its_table_is_the_caller_s_fault(self, load: Load, value: int, row: int) -> None:
        model = load(onnx_models.lookup(10))
        dims = model.description.inputs[0].dims
        x = np.zeros((3, *[2 if dim < 0 else dim for dim in dims]), np.int64)
        x[1] = value
        with pytest.raises(InputError, match=f"{value} is no index into a table of 10: from -10 to 9") as refusal:
            run(model.executor(), x)
        assert refusal.value.row == row

    def test_those_within_it_are_taken_from_both_ends(self, load: Load, tmp_path: Path) -> None:
        model = load(onnx_models.lookup(10))
        other = OnnxRuntimeBackend().load(ModelSource("m", "1", tmp_path / "model.onnx", ModelPolicy()))
        dims = model.description.inputs[0].dims
        x = np.full((2, *[2 if dim < 0 else dim for dim in dims]), 9, np.int64)
        x[1] = -10
        np.testing.assert_array_equal(run(model.executor(), x)[0], run(other.executor(), x)[0])

    @pytest.mark.parametrize(
        ("datatype", "wrong"), [("INT64", 2**31), ("INT64", -(2**31) - 1), ("INT64", 2**60), ("UINT64", 2**31)]
    )
    def test_what_32_bits_do_not_hold_is_refused_and_what_they_hold_is_not(
        self, load: Load, datatype: str, wrong: int
    ) -> None:
        executor = load(onnx_models.identity(datatype)).executor()
        x = np.full((2, 4), 2**31 - 1, DATATYPES[datatype].dtype)
        np.testing.assert_array_equal(run(executor, x)[0], x)
        x[1, 2] = wrong
        with pytest.raises(InputError, match=f"input 'x': {wrong} is more than 32 bits hold") as refusal:
            run(executor, x)
        assert refusal.value.row == 1

    def test_smaller_integers_have_all_their_values(self, load: Load) -> None:
        for datatype in ("INT32", "UINT32"):
            limits = np.iinfo(DATATYPES[datatype].dtype)
            x = np.array([[limits.min, 0, 1, limits.max]], DATATYPES[datatype].dtype)
            np.testing.assert_array_equal(run(load(onnx_models.identity(datatype)).executor(), x)[0], x)


class TestPrecision:
    def test_full_unless_something_else_is_asked_for(self, load: Load) -> None:
        """OpenVINO's own choice on this CPU may be bf16."""
        assert load(onnx_models.mlp()).description.precision == "f32"

    def test_what_the_cpu_has_is_computed_in_and_told(self, load: Load) -> None:
        """A CPU without bf16 says so instead: the test below."""
        native = OpenVinoBackend().native_precisions()
        assert native[-1] == "f32"
        x = np.random.default_rng(0).normal(size=(4, 30)).astype(np.float32)
        full = run(load(onnx_models.mlp()).executor(), x)[0]
        for precision in native:
            model = load(onnx_models.mlp(), precision=precision)
            assert model.description.precision == precision
            np.testing.assert_allclose(run(model.executor(), x)[0], full, atol=2e-2)

    def test_what_it_does_not_have_is_refused(self, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
        core = openvino.Core

        class Old:
            def __init__(self) -> None:
                self._core = core()

            def get_property(self, device: str, name: str) -> Any:
                return (
                    ["FP32", "INT8"] if name == "OPTIMIZATION_CAPABILITIES" else self._core.get_property(device, name)
                )

        monkeypatch.setattr(openvino, "Core", Old)
        assert OpenVinoBackend().native_precisions() == ("f32",)
        with pytest.raises(LoadError, match=r"precision: this CPU does not compute in bf16; use one of f32$"):
            load(onnx_models.mlp(), precision="bf16")


class TestOptions:
    def test_streams_and_threads(self, load: Load) -> None:
        facts = load(onnx_models.mlp(), options=OpenVinoOptions(num_streams=1, inference_num_threads=1), cpus=2)
        assert facts.description.engine_facts["num_streams"] == 1
        assert facts.description.engine_facts["inference_num_threads"] == 1

    def test_more_properties(self, load: Load) -> None:
        load(onnx_models.mlp(), options=OpenVinoOptions(properties={"ENABLE_HYPER_THREADING": False}))
        with pytest.raises(LoadError, match=r"CPU_DENORMALS_OPTIMIZATION is not for a server: .*; remove it"):
            load(onnx_models.mlp(), options=OpenVinoOptions(properties={"CPU_DENORMALS_OPTIMIZATION": True}))
        assert 5e-324 * 1.0 > 0  # nothing that was loaded here changed how this thread computes
        with pytest.raises(LoadError, match="the CPU device has no property CPU_SPEED"):
            load(onnx_models.mlp(), options=OpenVinoOptions(properties={"CPU_SPEED": 1}))
        with pytest.raises(LoadError, match=r"NUM_STREAMS has an option of its own; write openvino\.num_streams"):
            load(onnx_models.mlp(), options=OpenVinoOptions(properties={"NUM_STREAMS": 1}))
        with pytest.raises(LoadError, match=r"openvino\.properties: Wrong value often ?for property key ENABLE_HYPER"):
            load(onnx_models.mlp(), options=OpenVinoOptions(properties={"ENABLE_HYPER_THREADING": "often"}))


class TestFaults:
    @pytest.mark.parametrize(("threads", "cpus"), [(1, 1), (1, 2), (2, 2), (1, 4)])
    def test_shapes_that_do_not_fit_are_the_caller_s_where_shapes_are_free(
        self, load: Load, caplog: pytest.LogCaptureFixture, threads: int, cpus: int
    ) -> None:
        """Not with a single stream of a single thread: there the answer would be that of the run before."""
        model = load(unlike_lengths(), threads=threads, cpus=cpus)
        with caplog.at_level(logging.INFO), pytest.raises(InputError, match="cannot take inputs of these shapes"):
            run(model.executor(), np.ones((1, 3), np.float32), np.ones((1, 4), np.float32))
        assert "model m:" in caplog.text
        executor = model.executor()
        ones = np.ones((1, 3), np.float32)
        np.testing.assert_array_equal(run(executor, ones, ones)[0], 2 * ones)

    def test_where_failures_are_forgotten_it_does_not_serve(self, tmp_path: Path) -> None:
        """In a process that may use one CPU only."""
        write_model(tmp_path, unlike_lengths())
        program = (
            "import os\n"
            "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
            "from pathlib import Path\n"
            "import numpy as np\n"
            "from guepard.backends.base import ModelSource\n"
            "from guepard.backends.openvino import OpenVinoBackend\n"
            "from guepard.core.errors import InputError, LoadError\n"
            "from guepard.core.model_config import ModelPolicy\n"
            "try:\n"
            "    model = OpenVinoBackend().load(ModelSource('m', '1', Path(), ModelPolicy()))\n"
            "    model.executor().execute([np.ones((1, 3), np.float32), np.ones((1, 4), np.float32)], [])\n"
            "    print('answered')\n"
            "except (InputError, LoadError) as error:\n"
            "    print(type(error).__name__, error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        # A version of OpenVINO that tells failures with one CPU, too, may serve.
        assert done.stdout.startswith(("LoadError input 'x' has free dimensions", "InputError")), done

    def test_what_the_engine_itself_breaks_is_the_model_s(self, load: Load) -> None:
        """Inputs that the signature would have refused before they came here."""
        with pytest.raises(ModelError, match="failed in its engine; the server's log says why"):
            run(load(onnx_models.mlp()).executor(), np.ones((1, 7), np.float32))

    def test_an_operator_that_it_lacks(self, load: Load) -> None:
        with pytest.raises(LoadError, match=r"an operator that model\.onnx uses: custom\.Mystery; use engine: onnx"):
            load(onnx_models.unknown_operator())

    @pytest.mark.parametrize("content", [b"", b"nonsense", onnx_models.mlp()[:200], b"\x00" * 500])
    def test_damaged_files(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "model.onnx").write_bytes(content)
        with pytest.raises(LoadError, match=r"model\.onnx") as refusal:
            OpenVinoBackend().load(ModelSource("m", "1", tmp_path, ModelPolicy()))
        assert str(tmp_path) not in str(refusal.value)

    @pytest.mark.parametrize("location", ["/etc/hostname", "../secret.bin", "link.bin", "absent.bin"])
    def test_weights_outside_of_the_folder_are_never_opened(self, tmp_path: Path, location: str) -> None:
        (tmp_path / "secret.bin").write_bytes(b"\0" * 64)
        folder = tmp_path / "m"
        write_model(folder, onnx_models.external_initializer(location))
        (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
        with pytest.raises(LoadError, match="the model keeps weights in"):
            OpenVinoBackend().load(ModelSource("m", "1", folder, ModelPolicy()))

    def test_weights_beside_the_model(self, tmp_path: Path) -> None:
        write_model(tmp_path, onnx_models.external_initializer("weights.bin"))
        (tmp_path / "weights.bin").write_bytes(EXTERNAL_WEIGHTS.tobytes())
        model = OpenVinoBackend().load(ModelSource("m", "1", tmp_path, ModelPolicy()))
        other = OnnxRuntimeBackend().load(ModelSource("m", "1", tmp_path, ModelPolicy()))
        x = np.ones((1, *other.description.inputs[0].dims), np.float32)
        np.testing.assert_allclose(run(model.executor(), x)[0], run(other.executor(), x)[0])

    @pytest.mark.parametrize("model", [onnx_models.identity("BYTES"), onnx_models.sequence_output()])
    def test_what_it_cannot_carry(self, load: Load, model: bytes) -> None:
        with pytest.raises(LoadError):
            load(model)

    @pytest.mark.parametrize("inside", [False, True])
    def test_double_precision_is_not_computed_in_single(self, load: Load, inside: bool) -> None:
        model = onnx_models.add("FP64")
        if inside:
            nodes = [
                helper.make_node("Cast", ["x"], ["wide"], to=onnx_models.ONNX_TYPES["FP64"]),
                helper.make_node("MatMul", ["wide", "w"], ["product"]),
                helper.make_node("Cast", ["product"], ["y"], to=onnx_models.ONNX_TYPES["FP32"]),
            ]
            x, y = tensor("x", "FP32", ["n", 4]), tensor("y", "FP32", ["n", 2])
            model = build(nodes, [x], [y], {"w": np.ones((4, 2))})
        with pytest.raises(LoadError, match="is FP64, and OpenVINO's CPU device computes in FP32 at most; use engine"):
            load(model)

    def test_a_single_number_in_double_precision_is_no_reason(self, load: Load) -> None:
        nodes = [
            helper.make_node("Cast", ["scale"], ["single"], to=onnx_models.ONNX_TYPES["FP32"]),
            helper.make_node("Mul", ["x", "single"], ["y"]),
        ]
        x, y = tensor("x", "FP32", ["n", 4]), tensor("y", "FP32", ["n", 4])
        executor = load(build(nodes, [x], [y], {"scale": np.array(0.5)})).executor()
        np.testing.assert_array_equal(run(executor, np.ones((1, 4), np.float32))[0], np.full((1, 4), 0.5, np.float32))

    @pytest.mark.parametrize(
        ("setting", "expected"),
        [
            ("sys.modules['openvino'] = None", "pip install 'guepard[openvino]'"),
            ("sys.path.insert(0, '')", "(OSError; the server's log says more); install it anew: pip install --force"),
        ],
        ids=["missing", "broken"],
    )
    def test_without_the_package(self, tmp_path: Path, setting: str, expected: str) -> None:
        (tmp_path / "openvino.py").write_text("raise OSError('libopenvino.so: cannot open shared object file')")
        program = (
            "import sys\n"
            f"{setting}\n"
            "from pathlib import Path\n"
            "from guepard.backends.registry import get_backend\n"
            "get_backend('openvino', Path('.'))\n"
        )
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert expected in done.stderr


class TestTermination:
    def test_a_run_that_nobody_waits_for_ends_early(self, load: Load) -> None:
        executor = load(onnx_models.slow(steps=400), threads=1, cpus=1).executor()
        x = np.ones((1, 1), np.float32)
        request = InferenceRequest([], NOBODY, 0)
        ended = threading.Event()

        def end() -> None:
            while not ended.wait(0.01):
                request.state = RequestState.RELEASED
                executor.terminate()

        ender = threading.Thread(target=end)
        ender.start()

        def run_on() -> None:
            while True:
                executor.execute([x], [request])

        try:
            with pytest.raises(Cancelled):
                run_on()
        finally:
            ended.set()
            ender.join()
        executor._is_ended = False
        assert run(executor, x)[0].shape[0] == 1

    def test_one_that_came_too_late_does_not_hurt_the_next(self, load: Load) -> None:
        executor = load(onnx_models.double()).executor()
        executor.terminate()
        request = InferenceRequest([], NOBODY, 0)
        (answer,) = executor.execute([np.ones((1, 4), np.float32)], [request])
        np.testing.assert_array_equal(answer, np.full((1, 4), 2, np.float32))


class TestOwnFormat:
    def test_an_intermediate_representation_serves(self, tmp_path: Path) -> None:
        path = write_model(tmp_path / "onnx", onnx_models.mlp())
        folder = tmp_path / "ir"
        openvino.save_model(openvino.Core().read_model(path), folder / "model.xml", compress_to_fp16=False)
        x = np.random.default_rng(0).normal(size=(4, 30)).astype(np.float32)
        expected = run(OnnxRuntimeBackend().load(ModelSource("m", "1", path, ModelPolicy())).executor(), x)[0]
        for source in (folder, folder / "model.xml"):
            model = OpenVinoBackend().load(ModelSource("m", "1", source, ModelPolicy()))
            assert (model.description.inputs, model.description.max_batch_size) == (reference(path).inputs, 64)
            np.testing.assert_allclose(run(model.executor(), x)[0], expected, rtol=1e-4)
        weights = (folder / "model.bin").read_bytes()
        (folder / "model.bin").write_bytes(weights[:100])
        with pytest.raises(LoadError, match=r"refuses model\.xml: model\.xml or model\.bin is damaged, cut short"):
            OpenVinoBackend().load(ModelSource("m", "1", folder, ModelPolicy()))
        (folder / "model.xml").write_bytes(path.read_bytes())  # which OpenVINO would read
        with pytest.raises(LoadError, match=r"model\.xml is not XML"):
            OpenVinoBackend().load(ModelSource("m", "1", folder, ModelPolicy()))
        (folder / "model.bin").unlink()
        with pytest.raises(LoadError, match=r"there is no file model\.bin beside model\.xml"):
            OpenVinoBackend().load(ModelSource("m", "1", folder, ModelPolicy()))


class TestCache:
    @pytest.fixture
    def source(self, tmp_path: Path) -> ModelSource:
        path = write_model(tmp_path / "1", heavy(1))
        return ModelSource("m", "1", path, ModelPolicy(), cache=tmp_path / "cache", memory_bytes=8 * GIB)

    def answer(self, source: ModelSource) -> tuple[Any, bool]:
        model = OpenVinoBackend().load(source)
        dims = model.description.inputs[0].dims
        (output,) = run(model.executor(), np.ones((1, *dims), model.description.inputs[0].datatype.dtype))
        model.close()
        return output, bool(model.description.engine_facts["from_cache"])

    def test_the_second_load_compiles_nothing(self, source: ModelSource) -> None:
        first, was_kept = self.answer(source)
        assert not was_kept
        again, was_kept = self.answer(source)
        assert was_kept
        np.testing.assert_array_equal(first, again)
        other = replace(source, threads=1, cpus=3)
        assert not self.answer(other)[1]  # other properties, another compiled form
        unkept = EngineOptions(openvino=OpenVinoOptions(cache=False))
        assert not self.answer(replace(source, policy=replace(source.policy, engines=unkept)))[1]

    def test_it_does_not_read_the_model_either_and_says_the_same_of_it(
        self, source: ModelSource, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        x, y = tensor("x", "FP32", ["n", "length"]), tensor("y", "FP32", ["n", 1_025])
        weights = {"w": np.ones((1_025, 1_025), np.float32)}
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
        source.path.write_bytes(build([node], [x], [y], weights, metadata={"guepard.padding": '{"inputs": {"x": 0}}'}))
        first = OpenVinoBackend().load(source)

        def read_model(*arguments: object) -> None:
            raise AssertionError(f"{arguments} was read")

        monkeypatch.setattr(openvino.Core, "read_model", read_model)
        again = OpenVinoBackend().load(source)
        assert again.description.engine_facts["from_cache"]
        assert replace(again.description, engine_facts={}) == replace(first.description, engine_facts={})

    def test_rules_for_values_are_kept_too(self, source: ModelSource) -> None:
        source.path.write_bytes(onnx_models.lookup(2_000, 1_000))
        for was_kept in (False, True):
            model = OpenVinoBackend().load(source)
            assert model.description.engine_facts["from_cache"] is was_kept
            with pytest.raises(InputError, match="2000 is no index into a table of 2000"):
                run(model.executor(), np.array([2_000]))

    def test_an_execution_that_outlives_the_model_has_its_weights(self, source: ModelSource) -> None:
        expected, _ = self.answer(source)
        model = OpenVinoBackend().load(source)
        assert model.description.engine_facts["from_cache"]
        executor = model.executor()
        model.close()
        del model
        gc.collect()
        np.testing.assert_array_equal(run(executor, np.ones((1, 1_025), np.float32))[0], expected)

    def test_a_wide_executor_beside_what_was_kept(self, source: ModelSource) -> None:
        wide = replace(source, cpus=2)
        expected, _ = self.answer(wide)
        model = OpenVinoBackend().load(wide)
        executor = model.wide_executor()
        assert model.description.engine_facts["from_cache"]
        assert executor is not None
        np.testing.assert_allclose(run(executor, np.ones((1, 1_025), np.float32))[0], expected, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("harm", ["cut", "flipped", "emptied"])
    def test_what_was_damaged_is_made_anew(self, source: ModelSource, harm: str) -> None:
        expected, _ = self.answer(source)
        assert source.cache is not None
        (blob,) = source.cache.rglob("model.blob")
        blob.chmod(0o600)
        content = bytearray(blob.read_bytes())
        content[len(content) // 2] ^= 0xFF
        blob.write_bytes(content if harm == "flipped" else content[: len(content) // 2 if harm == "cut" else 0])
        output, was_kept = self.answer(source)
        assert not was_kept
        np.testing.assert_array_equal(output, expected)
        assert self.answer(source)[1]

    def test_a_changed_model_is_compiled(self, source: ModelSource) -> None:
        self.answer(source)
        source.path.write_bytes(heavy(2))
        assert not self.answer(source)[1]

    def test_a_folder_that_others_may_write_to_is_not_used(
        self, source: ModelSource, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert source.cache is not None
        source.cache.mkdir(0o777)
        source.cache.chmod(0o777)
        self.answer(source)
        assert not self.answer(source)[1]
        assert "its compiled form could not be kept" in caplog.text

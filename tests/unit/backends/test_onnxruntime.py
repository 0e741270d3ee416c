"""The ONNX Runtime backend on real sessions."""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from guepard.backends.base import Executor, ModelSource
from guepard.backends.onnxruntime import OnnxRuntimeBackend, OnnxRuntimeModel
from guepard.core.datatypes import DATATYPES
from guepard.core.errors import Cancelled, InputError, LoadError, ModelError
from guepard.core.model_config import ModelPolicy
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.response import NOBODY
from guepard.core.tensor import TensorSpec
from tests.services import onnx_models
from tests.services.onnx_models import EXTERNAL_WEIGHTS, build, tensor, write_model

Load = Callable[..., OnnxRuntimeModel]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    models = []

    def load(model: bytes, **policy: Any) -> OnnxRuntimeModel:
        path = write_model(tmp_path, model)
        loaded = OnnxRuntimeBackend().load(ModelSource("m", "1", path, ModelPolicy(**policy)))
        assert isinstance(loaded, OnnxRuntimeModel)
        models.append(loaded)
        return loaded

    yield load
    for model in models:
        model.health()
        model.close()


def run(executor: Executor, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
    return list(executor.execute(inputs, []))


def sample(datatype: str) -> NDArray[Any]:
    if datatype == "BYTES":
        return np.array([[b"", b"a\x00b", "é日🐆".encode()], [b"tail\x00", b"x" * 1000, b" "]], object)
    if datatype == "BOOL":
        return np.array([[True, False, True], [False, False, True]])
    entry = DATATYPES[datatype]
    if entry.kind == "int":
        limits = np.iinfo(entry.dtype)
        return np.array([[limits.min, 0, limits.max], [1, 2, 3]], entry.dtype)
    if datatype == "BF16":
        return np.array([[0x3F80, 0xFF80, 0x7FC1], [0, 0x8000, 1]], np.uint16)
    return np.array([[0.0, -1.5, np.inf], [np.finfo(entry.dtype).max, 1, -np.inf]], entry.dtype)


class TestDatatypes:
    @pytest.mark.parametrize("datatype", DATATYPES)
    def test_every_datatype_comes_back_bit_for_bit(self, load: Load, datatype: str) -> None:
        model = load(onnx_models.identity(datatype, ["n", 3]))
        value = sample(datatype)
        value.flags.writeable = False
        (answer,) = run(model.executor(), value)
        assert model.description.inputs == (TensorSpec("x", datatype, [3]),)
        assert answer.dtype == DATATYPES[datatype].dtype
        assert answer.shape == value.shape
        if datatype == "BYTES":
            assert answer.tolist() == value.tolist()
        else:
            assert answer.tobytes() == value.tobytes()

    @pytest.mark.parametrize("datatype", ["BYTES", "BF16", "FP32"])
    @pytest.mark.parametrize("shape", [(), (0, 3), (1, 0), (1, 2), (2, 2, 3)])
    def test_every_rank_and_empty_tensors(self, load: Load, datatype: str, shape: tuple[int, ...]) -> None:
        model = load(onnx_models.identity(datatype, [None] * len(shape)))
        value = np.zeros(shape, DATATYPES[datatype].dtype)
        if datatype == "BYTES":
            value.fill(b"v")
        (answer,) = run(model.executor(), value)
        assert answer.shape == shape
        assert answer.tolist() == value.tolist()

    def test_a_strided_input_is_read_in_its_logical_order(self, load: Load) -> None:
        for datatype in ("FP32", "BF16"):
            model = load(onnx_models.identity(datatype, ["n", 3]))
            value = np.arange(6).astype(DATATYPES[datatype].dtype).reshape(3, 2).T
            assert run(model.executor(), value)[0].tolist() == value.tolist()

    def test_text_that_is_not_utf8_is_the_caller_s_fault(self, load: Load) -> None:
        value = np.array([[b"good", b"good"], [b"good", b"\xff\xfe"], [b"good", b"\xfd"]], object)
        for max_batch_size, row in ((8, 1), (0, None)):
            executor = load(onnx_models.identity("BYTES", ["n", 2]), max_batch_size=max_batch_size).executor()
            with pytest.raises(InputError, match=r"input 'x'.*\\xff.*not valid UTF-8") as refusal:
                run(executor, value)
            assert refusal.value.row == row

    def test_bf16_and_text_beside_other_datatypes(self, load: Load) -> None:
        nodes = [
            helper.make_node("Cast", ["half"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("Cast", ["single"], ["narrow"], to=TensorProto.BFLOAT16),
            helper.make_node("Cast", ["single"], ["text"], to=TensorProto.STRING),
        ]
        inputs = [tensor("half", "BF16", ["n"]), tensor("single", "FP32", ["n"])]
        outputs = [tensor("wide", "FP32", ["n"]), tensor("narrow", "BF16", ["n"]), tensor("text", "BYTES", ["n"])]
        executor = load(build(nodes, inputs, outputs)).executor()
        wide, narrow, text = run(executor, np.array([0x3F80, 0xC000], np.uint16), np.array([1, -2], np.float32))
        assert wide.tolist() == [1, -2]
        assert narrow.tolist() == [0x3F80, 0xC000]
        assert text.tolist() == [b"1", b"-2"]

    def test_text_beside_numbers(self, load: Load) -> None:
        nodes = [helper.make_node("Identity", ["a"], ["b"]), helper.make_node("Neg", ["x"], ["y"])]
        inputs, outputs = [tensor("a", "BYTES", ["n"]), tensor("x", "FP32", ["n"])], [tensor("b", "BYTES", ["n"])]
        executor = load(build(nodes, inputs, [*outputs, tensor("y", "FP32", ["n"])])).executor()
        text, negated = run(executor, np.array([b"t"], object), np.array([3], np.float32))
        assert (text.tolist(), negated.tolist()) == ([b"t"], [-3])


class TestDescription:
    def test_a_free_first_dimension_everywhere_means_batches_still_to_be_verified(self, load: Load) -> None:
        description = load(onnx_models.mlp()).description
        assert description.platform == "onnxruntime_onnx"
        assert description.backend == "onnxruntime"
        assert description.inputs == (TensorSpec("x", "FP32", [30]),)
        assert description.outputs == (TensorSpec("y", "FP32", [2]),)
        assert (description.max_batch_size, description.batch_verified) == (64, False)
        assert description.idempotent
        assert description.releases_gil

    def test_a_fixed_first_dimension_means_no_batches(self, load: Load) -> None:
        description = load(onnx_models.fixed_batch()).description
        assert description.inputs == (TensorSpec("x", "FP32", [1, 4]),)
        assert (description.max_batch_size, description.batch_verified) == (0, True)

    def test_no_batches_on_request_keeps_every_dimension(self, load: Load) -> None:
        description = load(onnx_models.mlp(), max_batch_size=0).description
        assert description.inputs == (TensorSpec("x", "FP32", [-1, 30]),)
        assert (description.max_batch_size, description.batch_verified) == (0, True)

    def test_batches_on_request_are_taken_on_trust(self, load: Load) -> None:
        description = load(onnx_models.mlp(), max_batch_size=7).description
        assert description.inputs == (TensorSpec("x", "FP32", [30]),)
        assert (description.max_batch_size, description.batch_verified) == (7, True)

    def test_batches_on_request_need_a_free_dimension(self, load: Load) -> None:
        with pytest.raises(LoadError, match=r"max_batch_size is 8.*tensor 'x'.*\[1, 4\].*set max_batch_size: 0"):
            load(onnx_models.fixed_batch(), max_batch_size=8)

    def test_a_scalar_output_rules_batches_out(self, load: Load) -> None:
        node = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)
        model = build([node], [tensor("x", "FP32", ["n"])], [tensor("y", "FP32", [])])
        assert load(model).description.max_batch_size == 0
        with pytest.raises(LoadError, match="tensor 'y'"):
            load(model, max_batch_size=2)

    def test_a_model_without_inputs_has_no_batches(self, load: Load) -> None:
        value = numpy_helper.from_array(np.arange(3, dtype=np.float32))
        nodes = [helper.make_node("Constant", [], ["x"], value=value), helper.make_node("Unique", ["x"], ["y"])]
        model = build(nodes, [], [tensor("y", "FP32", ["n"])])
        loaded = load(model)
        assert loaded.description.max_batch_size == 0
        assert run(loaded.executor())[0].tolist() == [0, 1, 2]
        with pytest.raises(LoadError, match="set max_batch_size: 0"):
            load(model, max_batch_size=4)

    def test_free_inner_dimensions(self, load: Load) -> None:
        description = load(onnx_models.masked_mean()).description
        assert description.inputs == (TensorSpec("ids", "INT64", [-1]), TensorSpec("mask", "INT64", [-1]))

    def test_initializers_listed_as_inputs_stay_inside(self, load: Load) -> None:
        model = load(onnx_models.initializer_as_input())
        assert [spec.name for spec in model.description.inputs] == ["x"]
        assert run(model.executor(), np.zeros((1, 4), np.float32))[0].tolist() == [[1, 1, 1, 1]]

    def test_several_outputs_keep_their_order(self, load: Load) -> None:
        model = load(onnx_models.two_outputs())
        assert [spec.name for spec in model.description.outputs] == ["total", "negated"]
        total, negated = run(model.executor(), np.array([[1, 2, 3, 4], [0, 0, 0, 1]]))
        assert total.tolist() == [10, 1]
        assert negated.tolist() == [[-1, -2, -3, -4], [0, 0, 0, -1]]

    def test_idempotence_can_be_denied(self, load: Load) -> None:
        assert not load(onnx_models.mlp(), idempotent=False).description.idempotent


class TestExecution:
    def test_a_batch_equals_its_rows(self, load: Load) -> None:
        executor = load(onnx_models.mlp()).executor()
        rows = np.random.default_rng(2).normal(size=(16, 30)).astype(np.float32)
        alone = np.concatenate([run(executor, row[None])[0] for row in rows])
        np.testing.assert_allclose(run(executor, rows)[0], alone, rtol=1e-6)

    def test_padding_under_the_mask_changes_nothing(self, load: Load) -> None:
        """Field case F044, as far as the model goes."""
        executor = load(onnx_models.masked_mean()).executor()
        ids = np.random.default_rng(3).integers(0, 1000, (1, 200))
        mask = np.ones_like(ids)
        short, short_mask = ids[:, :3], mask[:, :3]
        padded = np.concatenate([ids, np.pad(short, ((0, 0), (0, 197)))])
        padded_mask = np.concatenate([mask, np.pad(short_mask, ((0, 0), (0, 197)))])
        together = run(executor, padded, padded_mask)[0]
        np.testing.assert_allclose(together[0:1], run(executor, ids, mask)[0], atol=1e-4)
        np.testing.assert_allclose(together[1:2], run(executor, short, short_mask)[0], atol=1e-4)

    def test_rows_that_mix_are_left_for_warm_up_to_find(self, load: Load) -> None:
        model = load(onnx_models.batch_mixing())
        assert not model.description.batch_verified
        (mixed,) = run(model.executor(), np.array([[0, 0, 0, 0], [2, 2, 2, 2]], np.float32))
        assert mixed.tolist() == [[-1, -1, -1, -1], [1, 1, 1, 1]]

    def test_nan_is_an_answer(self, load: Load) -> None:
        assert np.isnan(run(load(onnx_models.divide()).executor(), np.zeros((1, 4), np.float32))[0]).all()

    def test_executors_run_side_by_side_on_one_session(self, load: Load) -> None:
        model = load(onnx_models.double())
        executors = [model.executor() for _ in range(4)]

        def work(number: int) -> bool:
            value = np.full((1, 4), number, np.float32)
            return all((run(executors[number], value)[0] == 2 * number).all() for _ in range(200))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))

    def test_a_run_lets_other_threads_work(self, load: Load) -> None:
        executor = load(onnx_models.slow(steps=20)).executor()
        turns, done = 0, False

        def count() -> None:
            nonlocal turns
            while not done:
                turns += 1
                time.sleep(0)

        with ThreadPoolExecutor(1) as pool:
            counting = pool.submit(count)
            while not turns:
                time.sleep(0)
            before = turns
            run(executor, np.zeros((1, 1), np.float32))
            during = turns - before
            done = True
            counting.result()
        assert during > 1

    def test_a_stream_is_the_one_answer(self, load: Load) -> None:
        executor = load(onnx_models.double()).executor()
        (only,) = executor.execute_stream([np.ones((1, 4), np.float32)], [])
        assert only[0].tolist() == [[2, 2, 2, 2]]


class TestTermination:
    def test_a_run_ends_early_and_the_next_is_whole(self, load: Load, caplog: pytest.LogCaptureFixture) -> None:
        executor = load(onnx_models.slow(steps=200)).executor()
        start = time.monotonic()
        run(executor, np.ones((1, 1), np.float32))
        whole_s = time.monotonic() - start
        with ThreadPoolExecutor(1) as pool:
            start = time.monotonic()
            running = pool.submit(run, executor, np.ones((1, 1), np.float32))
            time.sleep(whole_s / 10)
            executor.terminate()
            with pytest.raises(Cancelled):
                running.result()
            assert time.monotonic() - start < whole_s / 2
        assert run(executor, np.ones((1, 1), np.float32))[0].tolist() == [[1]]
        assert not caplog.records

    def test_one_that_comes_before_the_run_counts_if_nobody_waits(self, load: Load) -> None:
        executor = load(onnx_models.double()).executor()
        request = InferenceRequest([], NOBODY, 0)
        request.state = RequestState.RELEASED
        executor.terminate()
        with pytest.raises(Cancelled):
            executor.execute([np.ones((1, 4), np.float32)], [request])

    def test_one_that_comes_too_late_does_not_hit_the_next(self, load: Load) -> None:
        executor = load(onnx_models.double()).executor()
        request = InferenceRequest([], NOBODY, 0)
        request.state = RequestState.EXECUTING
        executor.terminate()
        assert executor.execute([np.ones((1, 4), np.float32)], [request])[0].tolist() == [[2, 2, 2, 2]]

    def test_it_is_the_run_of_this_executor_alone(self, load: Load) -> None:
        model = load(onnx_models.double())
        model.executor().terminate()
        assert run(model.executor(), np.ones((1, 4), np.float32))[0].tolist() == [[2, 2, 2, 2]]

    def test_values_of_onnx_runtime_s_own_kind_too(self, load: Load) -> None:
        executor = load(onnx_models.identity("BF16", ["n"])).executor()
        executor.terminate()
        assert run(executor, np.array([0x3F80], np.uint16))[0].tolist() == [0x3F80]


class TestFailures:
    def test_an_index_out_of_range_is_the_caller_s_fault(self, load: Load, caplog: pytest.LogCaptureFixture) -> None:
        executor = load(onnx_models.lookup()).executor()
        with caplog.at_level(logging.INFO), pytest.raises(InputError) as refusal:
            run(executor, np.array([99]))
        assert refusal.value.message == (
            "model 'm' refuses the input: indices element out of data bounds, "
            "idx=99 must be within the inclusive range [-10,9]"
        )
        assert "running Gather node" in caplog.text
        assert run(executor, np.array([9]))[0].tolist() == [[9, 9, 9, 9]]

    def test_shapes_that_do_not_fit_are_the_caller_s_where_it_chose_them(self, load: Load) -> None:
        executor = load(onnx_models.add(dims=["n", "k"])).executor()
        with pytest.raises(InputError, match=r"cannot take inputs of these shapes: Attempting to broadcast .* 3 by 4$"):
            run(executor, np.zeros((1, 3), np.float32), np.zeros((1, 4), np.float32))

    def test_a_declared_dimension_is_checked(self, load: Load) -> None:
        executor = load(onnx_models.double()).executor()
        with pytest.raises(InputError, match=r"invalid dimensions for input: x .* Got: 3 Expected: 4$"):
            run(executor, np.zeros((1, 3), np.float32))

    def test_a_wrong_dtype_is_refused(self, load: Load) -> None:
        executor = load(onnx_models.double()).executor()
        with pytest.raises(InputError, match=r"Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)"):
            run(executor, np.zeros((1, 4)))

    def test_a_batch_dimension_fixed_inside_is_the_model_s_fault(
        self, load: Load, caplog: pytest.LogCaptureFixture
    ) -> None:
        executor = load(onnx_models.hidden_fixed_batch(), max_batch_size=8).executor()
        with pytest.raises(ModelError) as failure:
            run(executor, np.zeros((2, 4), np.float32))
        assert failure.value.message == "model 'm' failed in its engine; the server's log says why"
        assert "cannot be reshaped" in caplog.text

    def test_memory_that_is_not_there_is_not_the_caller_s_fault(self, load: Load) -> None:
        node = helper.make_node("MatMul", ["x", "z"], ["y"])
        inputs = [tensor("x", "FP32", ["n", 1]), tensor("z", "FP32", [1, "k"])]
        executor = load(build([node], inputs, [tensor("y", "FP32", ["n", "k"])])).executor()
        with pytest.raises(ModelError):
            run(executor, np.zeros((2**22, 1), np.float32), np.zeros((1, 2**22), np.float32))


class TestLoading:
    def test_a_folder_and_a_file_are_the_same(self, tmp_path: Path) -> None:
        file = write_model(tmp_path / "1", onnx_models.mlp())
        for path in (file, file.parent):
            assert OnnxRuntimeBackend().load(ModelSource("m", "1", path, ModelPolicy())).description.inputs

    def test_triton_s_folder_named_model_onnx(self, tmp_path: Path) -> None:
        write_model(tmp_path / "1" / "model.onnx" / "model.onnx", onnx_models.mlp())
        assert OnnxRuntimeBackend().load(ModelSource("m", "1", tmp_path / "1", ModelPolicy())).description.inputs

    @pytest.mark.parametrize("name", ["absent.onnx", "folder", "circle"])
    def test_what_is_not_there_is_named_without_its_place(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "circle").mkdir()
        (tmp_path / "circle" / "model.onnx").symlink_to(".")
        with pytest.raises(LoadError, match=r"no file \w+\.onnx") as refusal:
            OnnxRuntimeBackend().load(ModelSource("m", "1", tmp_path / name, ModelPolicy()))
        assert str(tmp_path) not in str(refusal.value)

    @pytest.mark.parametrize(
        "damage",
        [
            b"",
            b"hello",
            b"\x08\x08",
            onnx_models.mlp()[:-100],
            # Damage inside an attribute, where only the engine's own parser looks.
            onnx_models.batch_mixing().replace(b"\x0a\x04axes", b"\x0a\x7faxes"),
        ],
    )
    def test_a_damaged_file_is_refused(self, load: Load, damage: bytes) -> None:
        with pytest.raises(LoadError, match="not a valid ONNX model"):
            load(damage)

    @pytest.mark.parametrize(
        "route",
        [onnx_models.external_initializer, onnx_models.external_constant, onnx_models.external_in_subgraph,
         onnx_models.external_in_function],
    )  # fmt: skip
    def test_weights_beside_the_model_are_used(self, load: Load, tmp_path: Path, route: Callable[[str], bytes]) -> None:
        (tmp_path / "weights.bin").write_bytes(EXTERNAL_WEIGHTS.tobytes())
        executor = load(route("weights.bin")).executor()
        assert run(executor, np.zeros((1, 4), np.float32))[0].tolist() == [[1, 2, 3, 4]]

    def test_weights_outside_are_refused_before_the_engine_sees_the_model(self, load: Load, tmp_path: Path) -> None:
        (tmp_path.parent / f"{tmp_path.name}.bin").write_bytes(EXTERNAL_WEIGHTS.tobytes())
        with pytest.raises(LoadError, match="not a plain path inside its folder"):
            load(onnx_models.external_initializer(f"../{tmp_path.name}.bin"))

    def test_a_missing_weight_file_is_named(self, load: Load, tmp_path: Path) -> None:
        with pytest.raises(LoadError, match=r"'weights\.bin', and there is no such file") as refusal:
            load(onnx_models.external_initializer("weights.bin"))
        assert str(tmp_path) not in str(refusal.value)

    def test_a_short_weight_file_is_refused_without_the_server_s_paths(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "weights.bin").write_bytes(b"short")
        with pytest.raises(LoadError, match=r"ONNX Runtime refuses model\.onnx") as refusal:
            load(onnx_models.external_initializer("weights.bin"))
        assert str(tmp_path) not in str(refusal.value)

    def test_a_custom_operator_is_refused(self, load: Load, tmp_path: Path) -> None:
        with pytest.raises(LoadError, match="never loaded; export the model with standard operators") as refusal:
            load(onnx_models.unknown_operator())
        assert str(tmp_path) not in str(refusal.value)
        assert "Mystery" in str(refusal.value)

    def test_a_sequence_is_refused_with_the_remedy(self, load: Load) -> None:
        with pytest.raises(LoadError, match=r"output 'y' is of type seq\(tensor\(float\)\).*plain tensors"):
            load(onnx_models.sequence_output())

    def test_a_zip_map_is_refused_with_the_remedy(self, load: Load) -> None:
        from skl2onnx import to_onnx
        from sklearn.linear_model import LogisticRegression

        features = np.array([[0.0], [1.0]], np.float32)
        classifier = LogisticRegression().fit(features, [0, 1])
        with pytest.raises(LoadError, match=r"'zipmap': False"):
            load(to_onnx(classifier, features[:1], target_opset=17).SerializeToString())
        plain = to_onnx(classifier, features[:1], target_opset=17, options={"zipmap": False})
        model = load(plain.SerializeToString())
        assert [spec.name for spec in model.description.outputs] == ["label", "probabilities"]

    def test_text_beside_bf16_is_refused(self, load: Load) -> None:
        nodes = [helper.make_node("Identity", ["a"], ["b"]), helper.make_node("Identity", ["x"], ["y"])]
        tensors = [
            tensor(name, kind, ["n"]) for name, kind in (("a", "BYTES"), ("x", "BF16"), ("b", "BYTES"), ("y", "BF16"))
        ]
        with pytest.raises(LoadError, match="joins the text input 'a' with the BF16 tensor 'x'"):
            load(build(nodes, tensors[:2], tensors[2:]))

    @pytest.mark.parametrize(
        ("versions", "kind"), [({"opset": 99}, "opset"), ({"opset": 17, "ir_version": 99}, "IR version")]
    )
    def test_models_from_the_future_say_what_this_engine_knows(
        self, load: Load, versions: dict[str, Any], kind: str
    ) -> None:
        model = build(
            [helper.make_node("Relu", ["x"], ["y"])],
            [tensor("x", "FP32", ["n"])],
            [tensor("y", "FP32", ["n"])],
            **versions,
        )
        with pytest.raises(
            LoadError, match=rf"has {kind} 99, and .* up to \d+; export .* or install a newer .* -U onnx"
        ):
            load(model)

    def test_types_without_a_wire_form_are_refused(self, load: Load) -> None:
        node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FN)
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT8E4M3FN, ["n"])
        model = build([node], [tensor("x", "FP32", ["n"])], [output], opset=19, ir_version=9)
        with pytest.raises(LoadError, match=r"tensor\(float8e4m3fn\).*cast it to one of BOOL"):
            load(model)

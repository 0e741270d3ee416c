"""Sessions whose weights lie in one file that all map: the same answers, less memory, and no harm where it fails."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from guepard.backends import shared_weights
from guepard.backends.base import ModelSource
from guepard.backends.onnxruntime import OnnxRuntimeBackend, OnnxRuntimeModel
from guepard.backends.shared_weights import WORTH_SHARING_BYTES, SharedWeights
from guepard.backends.weight_cache import WeightCache
from guepard.core.model_config import InstanceGroup, ModelPolicy
from tests.services import heavy_models, onnx_models
from tests.services.heavy_models import WIDTH, matmul_stack
from tests.services.onnx_models import write_model

PLENTY = 1 << 40
IN_PROCESSES = ModelPolicy(instance_group=InstanceGroup(count=2, execution="process"))


def options() -> Any:
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = 1
    chosen.log_severity_level = 4
    return chosen


class Bench:
    """A model on disk and a cache beside it."""

    def __init__(self, folder: Path, model: bytes) -> None:
        self.model = write_model(folder / "model", model)
        self.cache = folder / "cache"

    def weights(self, cache: Path | None = None) -> SharedWeights:
        return SharedWeights("m", [self.model], cache or self.cache, options)

    def shared(self) -> SharedWeights:
        weights = self.weights()
        assert weights.share(PLENTY)
        return weights

    def copies(self) -> list[Path]:
        return list(self.cache.glob("weights/*/model.onnx"))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return matmul_stack()


@pytest.fixture
def bench(tmp_path: Path, stack: bytes) -> Bench:
    return Bench(tmp_path, stack)


def run(session: Any, rows: int = 3) -> NDArray[Any]:
    (node,) = session.get_inputs()
    values = np.random.default_rng(1).normal(size=[rows, *node.shape[1:]]).astype(np.float32)
    output: NDArray[Any] = session.run(None, {"x": values})[0]
    return output


@pytest.mark.parametrize(
    "build",
    [
        heavy_models.matmul_stack,
        heavy_models.conv_stack,
        heavy_models.dynamic_int8_stack,
        heavy_models.static_qdq_stack,
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_answers_are_the_same_to_the_bit(tmp_path: Path, build: Callable[[], bytes], threads: int) -> None:
    """Kernels run on the same rearranged weights in the same order; only the threads may share the work otherwise."""
    bench = Bench(tmp_path, build())
    plain = run(bench.weights().session(options()))
    weights = bench.shared()
    chosen = options()
    chosen.intra_op_num_threads = threads
    shared = run(weights.session(chosen))
    assert np.ptp(plain) > 0.001
    if threads == 1:
        np.testing.assert_array_equal(shared, plain)
    else:
        np.testing.assert_allclose(shared, plain, rtol=1e-5, atol=1e-6)


def test_external_weights_are_part_of_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    files = heavy_models.write_with_external_data(folder, matmul_stack())
    weights = SharedWeights("m", files, tmp_path / "cache", options)
    plain = run(weights.session(options()))
    assert weights.share(PLENTY)
    np.testing.assert_array_equal(run(weights.session(options())), plain)
    content = bytearray(files[1].read_bytes())
    content[:4] = np.float32(5).tobytes()
    files[1].write_bytes(content)
    changed = SharedWeights("m", files, tmp_path / "cache", options)
    assert not changed.are_shared
    assert not np.array_equal(run(changed.session(options())), plain)


class TestWhen:
    def test_only_when_asked_and_from_then_on_at_once(self, bench: Bench) -> None:
        weights = bench.weights()
        assert not weights.are_shared
        run(weights.session(options()))
        assert not bench.cache.exists()
        assert weights.share(PLENTY)
        assert len(bench.copies()) == 1
        assert bench.weights().are_shared

    def test_small_models_are_left_as_they_are(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, onnx_models.mlp())
        weights = bench.weights()
        assert weights.size_bytes < WORTH_SHARING_BYTES
        assert not weights.is_worthwhile
        assert not weights.share(PLENTY)
        assert not bench.cache.exists()

    def test_nothing_is_kept_without_a_cache(self, bench: Bench) -> None:
        weights = SharedWeights("m", [bench.model], None, options)
        assert not weights.share(PLENTY)

    def test_a_copy_belongs_to_engine_cpu_and_optimisation(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        bench.shared()
        monkeypatch.setattr(ort, "__version__", "9.9")
        assert not bench.weights().are_shared
        monkeypatch.undo()
        (tmp_path / "cpuinfo").write_text("processor: 0\nflags\t\t: sse avx9\n")
        monkeypatch.setattr(shared_weights, "_CPU_INFO", tmp_path / "cpuinfo")
        assert not bench.weights().are_shared
        monkeypatch.undo()
        assert bench.weights().are_shared
        level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC

        def basic() -> Any:
            chosen = options()
            chosen.graph_optimization_level = level
            return chosen

        assert not SharedWeights("m", [bench.model], bench.cache, basic).are_shared

    def test_the_cpu_is_told_by_its_flags_on_arm_too(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "cpuinfo").write_text("processor\t: 0\nFeatures\t: fp asimd i8mm\n\nFeatures\t: fp\n")
        monkeypatch.setattr(shared_weights, "_CPU_INFO", tmp_path / "cpuinfo")
        assert shared_weights._cpu_flags() == {"fp", "asimd", "i8mm"}


class TestFallingBack:
    def test_a_model_that_cannot_be_saved_runs_as_it_is(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        bench = Bench(tmp_path, heavy_models.sparse_weights())
        weights = bench.weights()
        assert not weights.share(PLENTY)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert run(weights.session(options())).shape == (3, 2 * WIDTH)
        assert bench.copies() == list(bench.cache.glob("weights/*.partial")) == []

    def test_where_memory_is_short_no_copy_is_made(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        weights = bench.weights()
        assert not weights.share(weights.size_bytes * 5)
        assert "too little memory" in caplog.text
        assert bench.copies() == []

    @pytest.mark.parametrize("action", ["look", "make"])
    def test_a_cache_that_cannot_be_used_is_said_in_one_line(
        self, bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, action: str
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(30, "Read-only file system")

        if action == "look":
            (bench.cache / "weights").mkdir(parents=True)
            monkeypatch.setattr("guepard.backends.weight_cache.WeightCache.find", refuse)
        weights = bench.weights()
        monkeypatch.setattr("guepard.backends.weight_cache.mkdtemp", refuse)
        assert not weights.share(PLENTY)
        assert not weights.share(PLENTY)
        run(weights.session(options()))
        assert [record.getMessage() for record in caplog.records] == [
            "model m: its weights cannot be shared between sessions: Read-only file system (server.cache_dir)"
        ]

    def test_a_full_disk_leaves_nothing(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """A limit on the size of files stands for the disk."""
        code = (
            "import resource, sys; from pathlib import Path; import onnxruntime as ort\n"
            "from guepard.backends.shared_weights import SharedWeights\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 20, 6 << 20))\n"
            "weights = SharedWeights('m', [Path(sys.argv[1])], Path(sys.argv[2]), ort.SessionOptions)\n"
            "print(weights.share(1 << 40)); weights.session(ort.SessionOptions())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, bench.model, bench.cache], capture_output=True, text=True, timeout=60
        )
        assert done.stdout.strip() == "False", done.stderr
        assert "cannot be shared" in done.stderr
        assert [path.suffix for path in (bench.cache / "weights").iterdir()] == [".lock"]

    def test_a_copy_that_the_engine_refuses_is_thrown_away(
        self, bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = run(bench.weights().session(options()))
        weights = bench.shared()
        (copy,) = bench.copies()
        copy.chmod(0o600)
        copy.write_bytes(b"no model")
        np.testing.assert_array_equal(run(weights.session(options())), expected)
        assert "of no use" in caplog.text
        assert bench.copies() == []
        assert not weights.are_shared

    def test_a_copy_with_other_inputs_is_not_kept(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        signatures = iter([[("x", "tensor(float)", [1])], [("z", "tensor(float)", [1])]])
        monkeypatch.setattr(shared_weights, "_signature", lambda session: next(signatures))
        assert not bench.weights().share(PLENTY)
        assert bench.copies() == []

    def test_weights_that_are_all_small_are_not_worth_a_copy(self, tmp_path: Path) -> None:
        """Text does not go into the file of weights, so a model of text alone leaves none."""
        bench = Bench(tmp_path, heavy_models.many_words())
        assert bench.weights().is_worthwhile
        assert not bench.weights().share(PLENTY)
        assert bench.copies() == []


class TestBackend:
    def load(self, bench: Bench, **fields: Any) -> OnnxRuntimeModel:
        settings: dict[str, Any] = {
            "policy": ModelPolicy(),
            "cache": bench.cache,
            "cpus": 2,
            "memory_bytes": PLENTY,
        } | fields
        model = OnnxRuntimeBackend().load(ModelSource("m", "1", bench.model, **settings))
        assert isinstance(model, OnnxRuntimeModel)
        return model

    def test_processes_share_from_the_first_on(self, bench: Bench) -> None:
        model = self.load(bench, policy=IN_PROCESSES)
        assert len(bench.copies()) == 1
        model.close()

    @pytest.mark.parametrize(
        "fields",
        [
            {"policy": ModelPolicy()},
            {"policy": ModelPolicy(instance_group=InstanceGroup(count=1, execution="process"))},
            {"policy": IN_PROCESSES, "profile": "low-memory"},
            {"policy": IN_PROCESSES, "cache": None},
        ],
    )
    def test_a_session_that_stays_alone_is_not_copied(self, bench: Bench, fields: dict[str, Any]) -> None:
        self.load(bench, **fields).close()
        assert bench.copies() == []

    def test_the_wide_session_shares_with_the_narrow_one(self, bench: Bench) -> None:
        model = self.load(bench)
        values = np.ones((2, WIDTH), np.float32)
        expected = model.executor().execute([values], [])[0]
        wide = model.wide_executor()
        assert wide is not None
        assert len(bench.copies()) == 1
        for executor in (wide, model.executor()):
            np.testing.assert_allclose(executor.execute([values], [])[0], expected, rtol=1e-5, atol=1e-6)
        mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(bench.cache) in line]
        assert len({line.split()[0] for line in mapped}) >= 2
        model.close()

    @pytest.mark.parametrize("fields", [{"cpus": 1}, {"cache": None}, {"memory_bytes": 1}])
    def test_there_is_no_wide_session_where_it_is_no_wider_or_would_double_the_weights(
        self, bench: Bench, fields: dict[str, Any]
    ) -> None:
        model = self.load(bench, **fields)
        assert model.wide_executor() is None
        model.close()

    def test_small_weights_are_simply_there_twice(self, tmp_path: Path) -> None:
        model = self.load(Bench(tmp_path, onnx_models.mlp()), cache=None)
        assert model.wide_executor() is not None
        model.close()

    def test_a_copy_may_go_when_its_model_is_closed(self, bench: Bench) -> None:
        model = self.load(bench, policy=IN_PROCESSES)
        (copy,) = bench.copies()
        cache = WeightCache(copy.parents[1])
        assert not cache._evict(copy.parent)
        model.close()
        assert cache._evict(copy.parent)


def loaded_in_processes(model: Path, cache: Path | str, count: int) -> list[dict[str, float]]:
    command: list[str | Path] = [sys.executable, "-m", "tests.services.loaded_in_processes", model, cache, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, env=os.environ)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_processes_that_start_at_once_have_little_to_themselves(tmp_path: Path) -> None:
    """Weights of 24 MiB, in two processes: each has less than half of them beside what an engine takes anyway."""
    bench = Bench(tmp_path, matmul_stack(6))
    alone = loaded_in_processes(bench.model, "none", 2)
    shared = loaded_in_processes(bench.model, bench.cache, 2)
    weights = bench.model.stat().st_size
    least = max(each["private_bytes"] for each in shared)
    assert least < min(each["private_bytes"] for each in alone) - weights / 2
    assert len(bench.copies()) == 1
    assert {each["sum"] for each in shared} == {each["sum"] for each in alone}

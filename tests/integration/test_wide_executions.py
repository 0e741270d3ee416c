"""A heavy ONNX model: all CPUs for a lone request, one each for many. Whether that pays is not asked here."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guepard.core.engine_options import EngineOptions
from guepard.core.model_config import InstanceGroup, ModelPolicy
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Tensor
from guepard.engine import wide_choice
from guepard.engine.cpu_permits import CpuPermits
from guepard.engine.loop_scheduler import LoopScheduler
from guepard.engine.model_loader import LoadedVersion, load_version
from guepard.engine.model_repository import ModelDefinition
from guepard.engine.resources import Resources
from guepard.engine.served_model import ServedModel
from guepard.telemetry.request_trace import UNBOUNDED, RequestTrace, TracePlan
from tests.services.heavy_models import WIDTH, matmul_stack
from tests.services.onnx_models import write_model

CPUS = 2


class Awaited:
    """A sender whose answer a coroutine waits for."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[NDArray[Any]] = asyncio.get_running_loop().create_future()

    def send(self, request: InferenceRequest, response: Any, final: bool) -> None:
        self.answer.set_result(response.outputs[0])

    def finish(self, request: InferenceRequest) -> None:
        raise AssertionError

    def fail(self, request: InferenceRequest, error: Exception) -> None:
        self.answer.set_exception(error)


@pytest.fixture(scope="module")
def model(models: Path) -> Path:
    return write_model(models / "heavy.onnx", matmul_stack(4))


@pytest.fixture
def load(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LoadedVersion]]:
    """Loads the model as one that is heavy on any machine, and for which wide executions pay."""
    monkeypatch.setattr(wide_choice, "HEAVY_NS", 0)
    monkeypatch.setattr(wide_choice, "_PAYS_FROM", 1e9)
    loaded = []

    def load(**group: Any) -> LoadedVersion:
        policy = ModelPolicy(
            instance_group=InstanceGroup(execution="thread", **group), engines=EngineOptions(engine="onnxruntime")
        )
        resources = Resources(CPUS, 1 << 40, cache=tmp_path / "cache")
        loaded.append(load_version(ModelDefinition("heavy", model, policy), "1", model, resources))
        return loaded[-1]

    yield load
    for version in loaded:
        version.model.close()


def sample(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(1, WIDTH)).astype(np.float32)


def expected(version: LoadedVersion) -> list[NDArray[Any]]:
    return [np.asarray(version.executors[0].execute([sample(seed)], [])[0]) for seed in range(8)]


async def answers(version: LoadedVersion, callers: int, calls: int) -> tuple[list[NDArray[Any]], int, int]:
    """What so many callers get, each sending its next request when it has its answer; executions, wide ones of them."""
    loop = asyncio.get_running_loop()
    plan = TracePlan(is_on=False, rate=1, limit=UNBOUNDED)
    served = ServedModel(
        version.config,
        version.model,
        version.executors,
        LoopScheduler(loop),
        loop.call_soon_threadsafe,
        0,
        RequestTrace(plan),
        wide=version.wide,
        permits=CpuPermits(2),
    )

    async def call(seed: int) -> NDArray[Any]:
        for _ in range(calls):
            sender = Awaited()
            request = InferenceRequest([Tensor("x", "FP32", sample(seed))], sender, LoopScheduler(loop).now())
            served.infer(request)
            answer = await asyncio.wait_for(sender.answer, 30)
        return answer

    try:
        got = list(await asyncio.gather(*[call(seed) for seed in range(callers)]))
        reading = served.statistics.read()
        return got, reading.executions, reading.wide
    finally:
        await served.close()


def test_one_caller_has_all_cpus_and_its_answers_are_the_same(load: Callable[..., LoadedVersion]) -> None:
    version = load()
    right = expected(version)
    got, executions, wide = asyncio.run(answers(version, 1, 10))
    assert (executions, wide) == (10, 10)
    np.testing.assert_allclose(got[0], right[0], rtol=1e-5, atol=1e-6)


def test_of_many_callers_nearly_all_are_narrow_and_all_get_the_same_answers(
    load: Callable[..., LoadedVersion],
) -> None:
    version = load()
    right = expected(version)
    got, executions, wide = asyncio.run(answers(version, 8, 10))
    assert executions >= 20
    assert wide <= executions / 4  # at the start and the end of the load there may be a lone one
    for mine, theirs in zip(got, right, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_the_configuration_says_what_was_found(load: Callable[..., LoadedVersion]) -> None:
    config = load().config
    assert config.wide_rows == config.max_batch_size
    assert "wide and" in config.wide_reason
    assert config.instance_count == CPUS


def test_an_operator_may_have_none(load: Callable[..., LoadedVersion], tmp_path: Path) -> None:
    version = load(wide="never")
    assert version.wide is None
    assert version.config.wide_reason == "instance_group.wide is never"
    assert not (tmp_path / "cache").exists()
    _, _, wide = asyncio.run(answers(version, 1, 3))
    assert wide == 0


def test_one_instance_has_all_cpus_anyway(load: Callable[..., LoadedVersion]) -> None:
    version = load(count=1)
    assert version.wide is None
    assert version.config.wide_reason == ""


def test_weights_are_in_memory_once(load: Callable[..., LoadedVersion], tmp_path: Path) -> None:
    """Both sessions have the same file mapped."""
    load()
    (weights,) = tmp_path.glob("cache/weights/*/weights.bin")
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(weights) in line]
    assert len(mapped) >= 2

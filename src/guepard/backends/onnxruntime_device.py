"""Models of ONNX Runtime on GPUs.

Each instance has a session of its own: one session would have one arena for all, one graph of a kind, and with TensorRT
one execution at a time. So weights are on a GPU once for each instance there, and a limit is shared out among them.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime as ort

from guepard.backends.base import Executor, ModelSource
from guepard.backends.cuda_runtime import Gpu, host_memory
from guepard.backends.onnx_precision import weights_precision
from guepard.backends.onnxruntime_device_executor import DeviceExecutor, can_bind
from guepard.backends.onnxruntime_errors import load_error
from guepard.backends.onnxruntime_executor import executor_for
from guepard.backends.onnxruntime_graph_executor import GraphExecutor, check_graph
from guepard.backends.onnxruntime_placement import PLACEMENT_KEY, read_placement, warn_of_cpu
from guepard.backends.onnxruntime_providers import (
    CPU_PROVIDER,
    LONG_NAMES,
    SHORT_NAMES,
    ProviderPlan,
    TensorRtFiles,
    check_memory,
    check_precision,
    session_providers,
    uses_tf32,
)
from guepard.backends.onnxruntime_session import device_session_options
from guepard.backends.provider_availability import Runtime, tensorrt_version, why_absent
from guepard.backends.tensorrt_cache import engine_folder, engine_key, model_digest, timing_folder, timing_key
from guepard.backends.tensorrt_profiles import find_profile, write_shapes
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription

_LOGGER = logging.getLogger("guepard.backends.onnxruntime")

Describe = Callable[[Any], ModelDescription]

_REMEDIES = {
    "explicitly disabled": "onnxruntime.providers leaves cpu out, and some operators run nowhere else; add cpu",
    "graph capture": "an operator of it does not run on the GPU, or has a control flow; leave enable_cuda_graph out",
}


def usable_plan(plan: ProviderPlan, source: ModelSource, runtime: Runtime) -> tuple[ProviderPlan, dict[str, Any]]:
    """`plan`, or what is left of it where a provider is not there and that is allowed; and what to tell of that.

    Raises: LoadError, with the provider, why it is not there, and what to do.
    """
    reasons = {provider: why_absent(provider, plan.gpus, runtime) for provider in plan.on_gpu}
    absent = {provider: reason for provider, reason in reasons.items() if reason is not None}
    if not absent:
        return plan, {}
    told = list(dict.fromkeys(absent.values()))
    reason = told[0] if len(told) == 1 else "; ".join(f"{provider}: {text}" for provider, text in absent.items())
    return _without(plan, source, tuple(absent), reason)


def _without(
    plan: ProviderPlan, source: ModelSource, absent: Sequence[str], reason: str
) -> tuple[ProviderPlan, dict[str, Any]]:
    if not source.policy.engines.onnxruntime.allow_fallback:
        raise LoadError(
            f"{' and '.join(absent)} cannot be used: {reason}; or write onnxruntime.allow_fallback: true, which "
            "serves on what is left"
        )
    left = tuple(provider for provider in plan.providers if provider not in absent)
    used = replace(plan, providers=left) if left not in ((), ("cpu",)) else ProviderPlan(("cpu",))
    level = logging.DEBUG if source.again else logging.WARNING
    _LOGGER.log(
        level, "model %s runs on %s without %s: %s", source.name, used.providers[0], " and ".join(absent), reason
    )
    fallback = {"wanted": list(plan.providers), "used": list(used.providers), "reason": reason}
    return used, {"fallback": fallback}


class OnnxRuntimeDeviceModel:
    """A LoadedModel on the GPUs of `plan`, all of whose providers can be used. `files`: the model's own first.

    `describe` says what a session has in it. `facts` are added to what is told of the model.
    """

    def __init__(
        self,
        source: ModelSource,
        files: Sequence[Path],
        plan: ProviderPlan,
        describe: Describe,
        runtime: Runtime,
        facts: dict[str, Any],
    ) -> None:
        self._source = source
        self._path = files[0]
        self._plan = plan
        self._runtime = runtime
        self._gpus = runtime.find_gpus()
        check_memory(plan, source.policy.gpu_memory_limit_bytes, sum(file.stat().st_size for file in files))
        precision = check_precision(plan, source.precision, weights_precision(self._path))
        self._files = TensorRtFiles()
        if "tensorrt" in plan.providers:
            self._files = self._tensorrt_files(files, describe(self._plain_session()))
        first = self._session(0)
        self._first: Any = first
        self._handed_out = 0
        description = describe(first)
        self._uses_graphs = self._check_graphs(description)
        self.description = replace(
            description, precision=precision, gpus=plan.gpus, engine_facts=facts | self._facts(first)
        )

    def executor(self) -> Executor:
        """Raises: LoadError, when a GPU has no room for one more."""
        number, self._handed_out = self._handed_out, self._handed_out + 1
        session = self._session(number) if number else self._first
        name, description = self._source.name, self.description
        if not can_bind(description):
            return executor_for(session, name, description)
        memory = host_memory(self._runtime.cuda_version)
        if self._uses_graphs:
            return GraphExecutor(session, name, description, memory, gpu=self._plan.gpu_of(number))
        return DeviceExecutor(session, name, description, memory)

    def wide_executor(self) -> None:
        """An execution has its whole GPU as it is."""

    def trim(self) -> None:
        """An instance keeps its memory on the GPU: `gpu_memory_limit` bounds it."""

    def health(self) -> None:
        """A session that loaded stays fit."""

    def close(self) -> None:
        self._first = None

    def _check_graphs(self, description: ModelDescription) -> bool:
        options, on_tensorrt = self._source.policy.engines.onnxruntime, "tensorrt" in self._plan.providers
        asked = options.tensorrt.enable_cuda_graph if on_tensorrt else options.cuda.enable_cuda_graph
        if asked:
            check_graph(description, one_shape=on_tensorrt)
        return asked

    def _session(self, number: int) -> Any:
        """Of the instance `number`. Raises: LoadError."""
        plan, source = self._plan, self._source
        options = device_session_options(source.threads)
        options.add_session_config_entry(PLACEMENT_KEY, "1")
        if plan.is_strict:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        providers = session_providers(plan, source, plan.gpu_of(number), self._files)
        try:
            # Without that argument ONNX Runtime prints what fails and goes on with another provider.
            session = ort.InferenceSession(str(self._path), options, providers=providers, enable_fallback=0)
        except Exception as error:
            _LOGGER.error("model %s: %s", source.name, error)
            failure = load_error(error, self._path)
            remedy = next((f"; {text}" for words, text in _REMEDIES.items() if words in str(error)), "")
            raise LoadError(f"{failure}{remedy}") from None
        missing = [provider for provider in plan.on_gpu if LONG_NAMES[provider] not in session.get_providers()]
        if missing:
            raise LoadError(
                f"{' and '.join(missing)} could not be started, and ONNX Runtime would run the model on "
                f"{SHORT_NAMES.get(session.get_providers()[0], 'another provider')} without a word; standard error has "
                "what it says of that"
            )
        return session

    def _plain_session(self) -> Any:
        """For its inputs and outputs alone. Raises: LoadError."""
        options = device_session_options(1)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_prepacking", "1")
        try:
            return ort.InferenceSession(str(self._path), options, providers=[CPU_PROVIDER])
        except Exception as error:
            _LOGGER.error("model %s: %s", self._source.name, error)
            raise load_error(error, self._path) from None

    def _facts(self, session: Any) -> dict[str, Any]:
        options = self._source.policy.engines.onnxruntime
        facts: dict[str, Any] = {
            "providers": [SHORT_NAMES.get(name, name) for name in session.get_providers()],
            "gpus": [{"number": number, "name": self._gpus[number].name} for number in self._plan.gpus],
        }
        if "cuda" in self._plan.providers:
            facts["tf32"] = uses_tf32(options.cuda, self._source.precision)
        if self._plan.memory_bytes:
            facts["gpu_memory_limit_bytes"] = self._plan.memory_bytes
        placement = read_placement(session)
        if placement is not None:
            facts["placement"] = placement.facts()
            if not self._source.again:
                warn_of_cpu(self._source.name, placement)
        return facts

    def _tensorrt_files(self, files: Sequence[Path], description: ModelDescription) -> TensorRtFiles:
        """Raises: LoadError, when the shapes of the model are not known well enough."""
        source, options = self._source, self._source.policy.engines.onnxruntime.tensorrt
        profile = find_profile(options, description.inputs, description.max_batch_size, description.padding)
        found = TensorRtFiles("", "", *(write_shapes(shapes) for shapes in (profile.min, profile.opt, profile.max)))
        version = tensorrt_version()
        if source.cache is None or not (options.engine_cache or options.timing_cache):
            return found
        if not version:
            _LOGGER.warning("model %s: TensorRT does not say its version, so no engines are kept", source.name)
            return found
        gpu = _gpu_facts(self._gpus[self._plan.gpu_of(0)])
        versions = {"onnxruntime": self._runtime.version, "tensorrt": version}
        (name, values), *_ = session_providers(replace(self._plan, providers=("tensorrt",)), source, 0, found)
        key = engine_key(model_digest(files), versions, gpu, {"provider": name, **values})
        try:
            return replace(
                found,
                engines=str(engine_folder(source.cache, key)) if options.engine_cache else "",
                timings=str(timing_folder(source.cache, timing_key(versions, gpu))) if options.timing_cache else "",
            )
        except OSError as error:
            _LOGGER.warning("model %s: TensorRT's engines are not kept: %s", source.name, error)
            return found


def _gpu_facts(gpu: Gpu) -> dict[str, str]:
    return {"name": gpu.name, "compute_capability": gpu.compute_capability, "driver": str(gpu.driver)}

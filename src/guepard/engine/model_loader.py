"""From a definition to executors that have proved themselves. Blocks, so it runs beside the event loop."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns
from typing import Literal

from guepard.backends.base import Executor, LoadedModel, ModelSource
from guepard.backends.registry import get_backend
from guepard.core.errors import GuepardError, LoadError
from guepard.core.model_config import Execution, ModelConfig, ModelDescription, ModelPolicy
from guepard.core.tensor import TensorSpec
from guepard.engine.compatibility import incompatibility
from guepard.engine.model_repository import ModelDefinition
from guepard.engine.resources import Resources
from guepard.engine.warmup import Timing, Warmup, warm_up

log = logging.getLogger(__name__)

# Below these a hand-over to a thread costs more than it frees: one row, and what a full batch may hold the loop for.
_INLINE_ONE_NS = 150_000
_INLINE_FULL_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class LoadedVersion:
    config: ModelConfig
    model: LoadedModel
    executors: tuple[Executor, ...]
    duration_ns: int


def load_version(
    definition: ModelDefinition, version: str, path: Path, resources: Resources, replaces: ModelConfig | None = None
) -> LoadedVersion:
    """Load one version, warm it up and settle what was left open: batches, execution, instances.

    `replaces`: what serves now and would be replaced, so that its callers must be able to go on.
    Raises: LoadError with a reason that may be shown to clients.
    """
    started = perf_counter_ns()
    group = definition.policy.instance_group
    source = ModelSource(
        name=definition.name,
        version=version,
        path=path,
        policy=definition.policy,
        entry=definition.entry,
        trusted=definition.trusted,
        inputs=definition.inputs,
        outputs=definition.outputs,
        threads=max(1, resources.cpus // group.count) if group.count else 1,
        model_class=definition.model_class,
        profile=resources.profile,
        cache=resources.cache,
    )
    try:
        backend = get_backend(definition.backend, path)
        if definition.inputs and backend.name != "identity":
            raise LoadError(
                f"inputs are declared, but the {backend.name} backend reads them from the model; remove them"
            )
        model = backend.load(source)
        try:
            loaded = _settle(definition, version, model, resources, started)
            if replaces is not None:
                _check_replacement(replaces, loaded.config)
        except BaseException:
            model.close()
            raise
    except LoadError:
        raise
    except GuepardError as error:
        raise LoadError(error.message) from error
    except BaseException as error:
        # Code of users may raise anything, and this thread is not the main one.
        log.exception("model %s version %s failed to load", definition.name, version)
        raise LoadError(f"loading failed: {type(error).__name__}") from error
    return loaded


def _check_replacement(old: ModelConfig, new: ModelConfig) -> None:
    if old.warmed_up and not new.warmed_up:
        raise LoadError("the new version refuses every warm-up sample, and the one that serves does not")
    broken = incompatibility(old, new)
    if broken is not None:
        raise LoadError(f"callers of the version that serves would fail: {broken}; unload the model first to change it")


def _settle(
    definition: ModelDefinition, version: str, model: LoadedModel, resources: Resources, started: int
) -> LoadedVersion:
    policy = definition.policy
    description = model.description
    _check_outputs(description)
    first = model.executor()
    warmup = warm_up(definition.name, first, description, description.max_batch_size)
    if description.max_batch_size and not description.batch_verified and not warmup.rows_independent:
        description = _without_batches(description)
    execution = _execution(policy.instance_group.execution, description, warmup.timing)
    count = policy.instance_group.count or _instance_count(execution, description, resources.cpus)
    executors = [first]
    for _ in range(count - 1):
        executor = model.executor()
        warm_up(definition.name, executor, description, 1)
        executors.append(executor)
    config = ModelConfig(
        name=definition.name,
        version=version,
        platform=description.platform,
        backend=description.backend,
        inputs=description.inputs,
        outputs=description.outputs,
        max_batch_size=description.max_batch_size,
        instance_count=count,
        execution=execution,
        dynamic_batching=policy.dynamic_batching,
        timeout=policy.timeout,
        max_concurrency=policy.max_concurrency,
        idempotent=description.idempotent,
        decoupled=description.decoupled,
        warmed_up=warmup.timing is not None,
        batch_target=_batch_target(policy, description, warmup),
        parameters=policy.parameters,
        request_parameters=policy.request_parameters,
    )
    return LoadedVersion(config, model, tuple(executors), perf_counter_ns() - started)


def _check_outputs(description: ModelDescription) -> None:
    names = [spec.name for spec in description.outputs]
    if not names:
        raise LoadError("the model has no outputs, so there is nothing to answer")
    if len(set(names)) < len(names):
        raise LoadError(f"two outputs of the model have one name: {', '.join(names)}; give each its own")


def _batch_target(policy: ModelPolicy, description: ModelDescription, warmup: Warmup) -> int:
    """How many rows a batch is filled up to: what was asked for, or for auto what paid at warm-up."""
    batching = policy.dynamic_batching
    asked = policy.max_batch_size is not None or batching.max_queue_delay_ns > 0 or batching.preferred_batch_size
    if asked or not description.releases_gil or warmup.timing is None:
        return description.max_batch_size
    return min(warmup.paying_rows, description.max_batch_size)


def _without_batches(description: ModelDescription) -> ModelDescription:
    """The same model taken as one whose first dimension is free but no batch."""

    def whole(spec: TensorSpec) -> TensorSpec:
        return TensorSpec(spec.name, spec.datatype.name, (-1, *spec.dims), spec.optional)

    return replace(
        description,
        inputs=tuple(map(whole, description.inputs)),
        outputs=tuple(map(whole, description.outputs)),
        max_batch_size=0,
        batch_verified=True,
    )


def _execution(asked: Execution | Literal["auto"], description: ModelDescription, timing: Timing | None) -> Execution:
    """Where the model runs. Python code is never put on the loop unasked: it may block where a sample did not."""
    if description.decoupled:
        return "thread"
    if asked != "auto":
        return asked
    if not description.releases_gil or timing is None:
        return "thread"
    return "inline" if timing.one <= _INLINE_ONE_NS and timing.full <= _INLINE_FULL_NS else "thread"


def _instance_count(execution: Execution, description: ModelDescription, cpus: int) -> int:
    """One, or for engines that run beside Python as many as there are CPUs: each takes one thread."""
    return cpus if execution == "thread" and description.releases_gil else 1

"""From a definition to executors that have proved themselves. Blocks, so it runs beside the event loop."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

from guepard.backends.base import Executor, LoadedModel, ModelSource
from guepard.backends.registry import TAKES_DECLARED, backend_for, get_backend
from guepard.core.errors import GuepardError, LoadError
from guepard.core.hooks import Hooks
from guepard.core.model_config import Execution, ModelConfig, ModelDescription, ModelPolicy
from guepard.core.tensor import TensorSpec
from guepard.engine.compatibility import incompatibility
from guepard.engine.engine_choice import EngineChoice, EngineChooser
from guepard.engine.execution_choice import ExecutionChoice, choose_execution
from guepard.engine.model_hooks import ModelHooks
from guepard.engine.model_padding import apply_padding
from guepard.engine.model_repository import ModelDefinition
from guepard.engine.pinned_buffers import pin_buffers
from guepard.engine.processes.model import ProcessModel
from guepard.engine.resources import Resources
from guepard.engine.warmup import Warmup, warm_up
from guepard.engine.wide_choice import choose_wide
from guepard.formats.registry import resolve
from guepard.limits.heap import trim_heap

log = logging.getLogger(__name__)

# Executions that take this long for one row take turns with those of other models.
_LONG_NS = 2_000_000


@dataclass(frozen=True, slots=True)
class LoadedVersion:
    """`cpus` is how many permits an execution takes for its threads; 0: it takes no part in that.

    `hooks` are the steps around the model; those after it are part of the executors.
    """

    config: ModelConfig
    model: LoadedModel
    executors: tuple[Executor, ...]
    duration_ns: int
    wide: Executor | None = None
    cpus: int = 0
    hooks: ModelHooks | None = None


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
        threads=_threads(group.count, resources),
        model_class=definition.model_class,
        profile=resources.profile,
        cache=resources.cache,
        cpus=resources.cpus,
        memory_bytes=resources.memory_bytes,
    )
    try:
        loading = _Loading(definition, version, source, resources)
        try:
            loaded = loading.run(started)
            if replaces is not None:
                _check_replacement(replaces, loaded.config)
        except BaseException:
            loading.undo()
            raise
    except LoadError:
        raise
    except GuepardError as error:
        raise LoadError(error.message) from error
    except BaseException as error:
        # Code of users may raise anything, and this thread is not the main one.
        log.exception("model %s version %s failed to load", definition.name, version)
        raise LoadError(f"loading failed: {type(error).__name__}") from error
    trim_heap()  # making sessions takes memory for a moment, which the heap would keep
    return loaded


def close_version(loaded: LoadedVersion) -> None:
    """Let go of a version that nobody will serve."""
    for executor in (*loaded.executors, *([loaded.wide] if loaded.wide is not None else [])):
        executor.close()
    loaded.model.close()


def _check_inputs(definition: ModelDefinition, backend: str) -> None:
    if definition.inputs and backend not in TAKES_DECLARED:
        raise LoadError(f"inputs are declared, but the {backend} backend reads them from the model; remove them")


def _check_replacement(old: ModelConfig, new: ModelConfig) -> None:
    if old.warmed_up and not new.warmed_up:
        raise LoadError("the new version refuses every warm-up sample, and the one that serves does not")
    broken = incompatibility(old, new)
    if broken is not None:
        raise LoadError(f"callers of the version that serves would fail: {broken}; unload the model first to change it")


class _Opened(NamedTuple):
    """A model in memory, and what its first executor showed. `description` says what came of that, of batches."""

    model: LoadedModel
    executor: Executor
    warmup: Warmup
    description: ModelDescription


class _Loading:
    """One load: opens the model, in this process or in one of its own, and settles how it is served."""

    def __init__(self, definition: ModelDefinition, version: str, source: ModelSource, resources: Resources) -> None:
        self._definition = definition
        self._version = version
        resolved = resolve(source, backend_for(definition.backend, source.path))
        self._engines = EngineChooser(resolved.source, resolved.backend)
        self._source = resolved.source
        self._policy = resolved.source.policy
        self._hooks = _joined(definition.policy.hooks, resolved.hooks)
        # Where the files lie that steps may name: those of a format's are beside the version's own.
        where = source.path if resolved.hooks else definition.path
        self._folder = where if where.is_dir() else where.parent
        self._facts = dict(resolved.facts)
        self._resources = resources
        self._model: LoadedModel | None = None

    def undo(self) -> None:
        """Let go of what was loaded."""
        model, self._model = self._model, None
        if model is not None:
            model.close()

    def run(self, started: int) -> LoadedVersion:
        """`started`: when the load began, by perf_counter_ns."""
        policy, resources = self._policy, self._resources
        group = policy.instance_group
        model, first, warmup, description = self._open_on_the_best(in_process=group.execution == "process")
        hooks = ModelHooks(self._hooks, self._folder, description)
        warmup = hooks.warmed(first, warmup)
        choice = self._choose(model, warmup)
        if choice.execution == "process" and group.execution != "process":
            self.undo()
            model, first, warmup, description = self._open(in_process=True)
            warmup = hooks.warmed(first, warmup)
        padding = apply_padding(self._definition.name, hooks.around(first), hooks.description, policy, warmup)
        count = group.count or _instance_count(choice.execution, description, resources)
        count *= max(1, len(description.gpus))
        wide = choose_wide(group, resources, model, description, choice.execution, count, warmup)
        if wide.narrow is not None:
            first.close()
            first = wide.narrow
            model.trim()
        executors = [first]
        for _ in range(count - 1):
            executor = model.executor()
            pin_buffers(executor)
            warm_up(self._definition.name, executor, description, 1)
            executors.append(executor)
        config = ModelConfig(
            name=self._definition.name,
            version=self._version,
            platform=description.platform,
            backend=description.backend,
            inputs=hooks.inputs,
            outputs=hooks.outputs,
            max_batch_size=description.max_batch_size,
            instance_count=count,
            execution=choice.execution,
            execution_reason=choice.reason,
            dynamic_batching=policy.dynamic_batching,
            timeout=policy.timeout,
            max_concurrency=policy.max_concurrency,
            idempotent=description.idempotent,
            decoupled=description.decoupled,
            warmed_up=warmup.timing is not None,
            batch_target=_batch_target(policy, description, warmup),
            parameters=policy.parameters,
            request_parameters=policy.request_parameters,
            padding=padding,
            wide_rows=wide.max_rows,
            wide_reason=wide.reason,
            engine=description.engine,
            precision=description.precision,
            engine_reason=self._engine.reason,
            engine_ratio=self._engine.ratio,
            engine_facts={**description.engine_facts, **self._engine.facts, **self._facts},
            model_inputs=hooks.description.inputs if hooks.before else None,
            preprocess=hooks.before.names if hooks.before else (),
            postprocess=hooks.after.names if hooks.after else (),
            gpus=description.gpus,
        )
        return LoadedVersion(
            config,
            model,
            tuple([hooks.around(executor) for executor in executors]),
            perf_counter_ns() - started,
            None if wide.executor is None else hooks.around(wide.executor),
            self._source.threads if self._takes_turns(config, warmup) else 0,
            hooks if self._hooks else None,
        )

    def _takes_turns(self, config: ModelConfig, warmup: Warmup) -> bool:
        """Whether its executions wait for CPUs that those of other models have."""
        if config.execution != "thread" or config.backend == "python" or config.gpus:
            return False
        is_long = warmup.timing is None or warmup.timing.one >= _LONG_NS
        # An operator who wants more instances than CPUs wants them to run at once.
        return is_long and config.instance_count <= self._resources.cpus

    @property
    def _engine(self) -> EngineChoice:
        return self._engines.choice

    def _open_on_the_best(self, *, in_process: bool) -> _Opened:
        """On the engine that was chosen, or if that is still open, on the reference engine until it is known."""
        opened = self._open_or_fall_back(in_process)
        if not self._engines.is_open:
            return opened
        reference = self._engine.backend
        self._engines.measure(opened.executor, opened.model.description, opened.warmup)
        if self._engine.backend == reference:
            return opened
        opened.executor.close()
        del opened  # two engines are not to have the weights at once
        self.undo()
        return self._open_or_fall_back(in_process)

    def _open_or_fall_back(self, in_process: bool) -> _Opened:
        try:
            with self._engines.loading():
                return self._open(in_process=in_process)
        except Exception as error:
            if not self._engines.fall_back(error):
                raise
        self.undo()
        return self._open(in_process=in_process)

    def _open(self, *, in_process: bool) -> _Opened:
        definition = self._definition
        source = replace(self._source, precision=self._engine.precision)
        if in_process:
            group = self._policy.instance_group
            count = group.count or self._resources.cpus
            limit = group.memory_limit_bytes or self._resources.memory_bytes // (2 * count)
            model: LoadedModel = ProcessModel(source, self._engine.backend, group.timeout_ns, limit)
            self._model = model
            _check_inputs(definition, model.description.backend)
        else:
            backend = get_backend(self._engine.backend, source.path)
            _check_inputs(definition, backend.name)
            self._model = model = backend.load(source)
        description = model.description
        _check_outputs(description)
        _check_gpus(self._policy, description)
        first = model.executor()
        pin_buffers(first)
        warmup = warm_up(definition.name, first, description, description.max_batch_size)
        if description.max_batch_size and not description.batch_verified and not warmup.rows_independent:
            description = _without_batches(description)
        return _Opened(model, first, warmup, description)

    def _choose(self, model: LoadedModel, warmup: Warmup) -> ExecutionChoice:
        return choose_execution(
            self._policy.instance_group.execution,
            model.description,
            warmup.timing,
            warmup.hold,
            may_move=self._source.model_class is None,
        )


def _joined(outside: Hooks, inside: Hooks) -> Hooks:
    """The operator's steps around those of a format."""
    return Hooks(outside.preprocess + inside.preprocess, inside.postprocess + outside.postprocess)


def _check_outputs(description: ModelDescription) -> None:
    names = [spec.name for spec in description.outputs]
    if not names:
        raise LoadError("the model has no outputs, so there is nothing to answer")
    if len(set(names)) < len(names):
        raise LoadError(f"two outputs of the model have one name: {', '.join(names)}; give each its own")


def _check_gpus(policy: ModelPolicy, description: ModelDescription) -> None:
    group, gpus = policy.instance_group, description.gpus
    if group.kind == "gpu" and not gpus and "fallback" not in description.engine_facts:
        raise LoadError(
            f"instance_group.kind is gpu, and the {description.backend} backend places no models there; leave it out"
        )
    if len(gpus) > 1 and group.execution == "process":
        raise LoadError(
            "instance_group.gpus names several GPUs, and a process does not know which of them is its own; write "
            "execution: thread, or one model for each GPU"
        )


def _batch_target(policy: ModelPolicy, description: ModelDescription, warmup: Warmup) -> int:
    """How many rows a batch is filled up to: what was asked for, or for auto what paid at warm-up."""
    if policy.names_batches or not description.releases_gil or warmup.timing is None:
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


def _threads(count: int, resources: Resources) -> int:
    """Of an execution: one where the number of instances is to follow from the CPUs, else each instance's share."""
    return max(1, resources.cpus // count) if count and resources.profile == "standard" else 1


def _instance_count(execution: Execution, description: ModelDescription, resources: Resources) -> int:
    """One, also for a GPU; or for engines that run beside Python as many as there are CPUs: each takes one thread."""
    if description.gpus:
        return 1
    takes_all = execution != "inline" and description.releases_gil and resources.profile == "standard"
    return resources.cpus if takes_all else 1

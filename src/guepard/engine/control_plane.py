"""Loads and unloads models, and knows the state of each. Runs on the event loop; the heavy parts run beside it."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from guepard.core.errors import LoadError, NotFound, NotReady, PermissionDenied
from guepard.core.model_config import SECOND, ModelConfig
from guepard.core.names import is_model_name
from guepard.core.scheduler import Scheduler
from guepard.core.states import MOVES, ModelReadyState
from guepard.engine.background import in_thread
from guepard.engine.cpu_permits import CpuPermits
from guepard.engine.data_plane import DataPlane, invalid_name
from guepard.engine.model_loader import LoadedVersion, close_version, load_version
from guepard.engine.model_repository import ModelDefinition, ModelRepository
from guepard.engine.preprocessed_model import PreprocessedModel
from guepard.engine.resources import Resources
from guepard.engine.served_model import ServedModel
from guepard.engine.step_pool import StepPool
from guepard.telemetry.trace_settings import TraceSettings

log = logging.getLogger(__name__)

_LOAD_GRACE_S = 1.0  # a process that hangs is ended by its watch, which then knows more about it


class IndexEntry(NamedTuple):
    """One line of the repository index."""

    name: str
    version: str
    state: ModelReadyState
    reason: str


@dataclass(slots=True)
class _Status:
    """What is known of one model. While a reload runs or after it failed, `served` still answers."""

    state: ModelReadyState
    required: bool
    version: str = ""
    reason: str = ""
    served: ServedModel | None = None

    @property
    def is_fit(self) -> bool:
        return self.served is not None and self.served.is_fit

    def move(self, state: ModelReadyState, reason: str = "") -> None:
        if state not in MOVES[self.state]:
            raise AssertionError(f"a model cannot go from {self.state.value} to {state.value}")
        self.state = state
        self.reason = reason


class ControlPlane:
    """`on_change` is told of each version that starts (True) and stops (False) being served.

    `trace_settings` says which requests of the models are traced.
    """

    def __init__(
        self,
        repository: ModelRepository,
        data_plane: DataPlane,
        scheduler: Scheduler,
        *,
        resources: Resources,
        drain_timeout_s: float,
        frozen: bool,
        on_change: Callable[[ServedModel, bool], None],
    ) -> None:
        self._repository = repository
        self._data_plane = data_plane
        self._scheduler = scheduler
        self._resources = resources
        self._permits = CpuPermits(resources.cpus)
        self._drain_timeout_s = drain_timeout_s
        self._frozen = frozen
        self._on_change = on_change
        self.trace_settings = TraceSettings(self._check_known)
        self._started = False
        self._steps: StepPool | None = None
        self._statuses: dict[str, _Status] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._retiring: set[asyncio.Task[None]] = set()

    async def start(self, names: list[str] | None) -> list[LoadError]:
        """Load the models named, or all there are, side by side. Returns what failed; the others serve.

        Raises: LoadError for a name that no model has.
        """
        definitions = self._repository.definitions()
        chosen = list(definitions) if names is None or "*" in names else names
        for name in chosen:
            if name not in definitions:
                raise LoadError(f"no model is called {name!r}; there are {', '.join(definitions) or 'none'}")
            self._statuses[name] = _Status(ModelReadyState.UNKNOWN, definitions[name].required)
        self._started = True
        results = await asyncio.gather(*[self._load(definitions[name]) for name in chosen], return_exceptions=True)
        failures = []
        for result in results:
            if isinstance(result, LoadError):
                failures.append(result)
            elif result is not None:
                raise result
        return failures

    async def load(self, name: str) -> None:
        """Load a model, or load it again: the version that serves goes on until the new one is ready.

        Raises: NotFound, PermissionDenied, InputError, NotReady with the reason of the failure.
        """
        self._check_allowed(name)
        definition = self._find(name)
        try:
            await self._load(definition)
        except LoadError as error:
            raise NotReady(str(error)) from None

    async def unload(self, name: str) -> None:
        """Take a model out of service: new requests are refused, those taken in are answered, then it is closed.

        Returns when the model is gone. Raises: NotFound, PermissionDenied, InputError.
        """
        self._check_allowed(name)
        async with self._lock(name):
            status = self._statuses.get(name)
            if status is None:
                if self._repository.find(name) is None:
                    raise NotFound(f"unknown model {name!r}")
                return
            served, status.served = status.served, None
            if served is None:
                return
            status.required = False  # unloaded on purpose: readiness does not wait for it until it is loaded again
            status.move(ModelReadyState.UNLOADING)
            self._publish()
            await self._retire(served)
            status.move(ModelReadyState.UNAVAILABLE, "unloaded")
            self._publish()
            log.info("model %s unloaded", name)

    def index(self) -> list[IndexEntry]:
        """Every model there is, loaded or not, by name."""
        try:
            known = self._repository.definitions()
        except LoadError:
            known = {}
        return [
            self.entry(name) or IndexEntry(name, "", ModelReadyState.UNAVAILABLE, "not loaded")
            for name in sorted(known.keys() | self._statuses.keys())
        ]

    def entry(self, name: str) -> IndexEntry | None:
        """The line of a model that was loaded or tried, without a look at the repository. None for any other name."""
        status = self._statuses.get(name)
        if status is None:
            return None
        if status.served is not None:
            return IndexEntry(name, status.served.config.version, ModelReadyState.READY, status.reason)
        return IndexEntry(name, status.version, status.state, status.reason)

    def configs(self) -> list[ModelConfig]:
        """Configurations of the versions that serve."""
        return [status.served.config for status in self._statuses.values() if status.served is not None]

    def folders(self) -> dict[str, Path]:
        """Where the files of each model are. Lists the folders of the repository."""
        try:
            return {name: definition.path for name, definition in self._repository.definitions().items()}
        except LoadError:
            return {}

    def unready(self) -> list[str]:
        """Names of required models that do not serve, or say themselves that they are unfit."""
        if not self._started:
            return ["the models"]
        return [name for name, status in self._statuses.items() if status.required and not status.is_fit]

    async def stop(self, timeout_s: float) -> bool:
        """Wait for requests that are still inside, then close every model. False when some had to be cut off."""
        served = [status.served for status in self._statuses.values() if status.served is not None]
        drained = await asyncio.gather(*[model.drain(timeout_s) for model in served])
        for task in list(self._retiring):
            task.cancel()
        await asyncio.gather(*[model.close() for model in served], *self._retiring, return_exceptions=True)
        if self._steps is not None:
            self._steps.close()
        return all(drained)

    async def _load(self, definition: ModelDefinition) -> None:
        name = definition.name
        async with self._lock(name):
            status = self._statuses.setdefault(name, _Status(ModelReadyState.UNKNOWN, definition.required))
            status.required = definition.required
            if status.served is None:
                status.move(ModelReadyState.LOADING)
                self._publish()
            replaces = status.served.config if status.served is not None else None
            try:
                version, path = self._repository.latest_version(definition)
                status.version = version
                loaded = await self._load_in_time(definition, version, path, replaces)
            except LoadError as error:
                reason = str(error)
                if status.served is None:
                    status.move(ModelReadyState.UNAVAILABLE, reason)
                    self._publish()
                else:
                    status.reason = f"reload failed: {reason}"
                log.error("model %s could not be loaded: %s", name, reason)
                raise LoadError(f"model {name!r} could not be loaded: {reason}") from None
            self._serve(status, loaded)

    async def _load_in_time(
        self, definition: ModelDefinition, version: str, path: Path, replaces: ModelConfig | None
    ) -> LoadedVersion:
        """Raises: LoadError, also when `load_timeout` has passed: an engine may hang, and nobody can end a thread."""
        limit_s = definition.policy.load_timeout_ns / SECOND
        loading = in_thread(
            f"load-{definition.name}",
            lambda: load_version(definition, version, path, self._resources, replaces),
            close_version,
        )
        try:
            return await asyncio.wait_for(loading, limit_s + _LOAD_GRACE_S)
        except TimeoutError:
            log.warning(
                "model %s: the thread that loads it goes on; what it holds is given back if it ends", definition.name
            )
            raise LoadError(
                f"loading did not end within {limit_s:g} s; raise load_timeout, or name another engine"
            ) from None

    def _serve(self, status: _Status, loaded: LoadedVersion) -> None:
        loop = asyncio.get_running_loop()
        config = loaded.config
        hooks = loaded.hooks
        make: Callable[..., ServedModel] = ServedModel
        if hooks is not None and hooks.before is not None:
            make = partial(PreprocessedModel, pool=self._step_pool())
        served = make(
            config,
            loaded.model,
            loaded.executors,
            self._scheduler,
            loop.call_soon_threadsafe,
            loaded.duration_ns,
            self.trace_settings.trace(config.name),
            wide=loaded.wide,
            permits=self._permits,
            cpus=loaded.cpus,
            buffers=self._resources.buffers,
            hooks=hooks,
        )
        previous, status.served = status.served, served
        status.version = config.version
        if previous is None:
            status.move(ModelReadyState.READY)
        status.reason = "" if config.warmed_up else "served cold: it refused every warm-up sample, see the log"
        self._publish()
        self._on_change(served, True)
        log.info(
            "model %s version %s is ready: %s, max_batch_size %d (filled to %d), %d x %s (%s)%s, loaded in %.0f ms",
            config.name,
            config.version,
            config.backend,
            config.max_batch_size,
            config.filled_rows,
            config.instance_count,
            config.execution,
            config.execution_reason,
            _width(config),
            loaded.duration_ns / 1e6,
        )
        if previous is not None:
            task = loop.create_task(self._retire(previous))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    def _step_pool(self) -> StepPool:
        if self._steps is None:
            post = asyncio.get_running_loop().call_soon_threadsafe
            self._steps = StepPool(self._resources.cpus, self._scheduler, post)
        return self._steps

    async def _retire(self, served: ServedModel) -> None:
        try:
            await served.drain(self._drain_timeout_s)
        finally:
            await served.close()
            current = self._statuses[served.config.name].served
            if current is None or current.config.version != served.config.version:
                self._on_change(served, False)

    def _publish(self) -> None:
        self._data_plane.publish(
            {name: status.served for name, status in self._statuses.items() if status.served is not None},
            {name: (status.state, status.reason) for name, status in self._statuses.items() if status.served is None},
        )

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def _find(self, name: str) -> ModelDefinition:
        try:
            definition = self._repository.find(name)
        except LoadError as error:
            raise NotReady(str(error)) from None
        if definition is None:
            raise NotFound(f"unknown model {name!r}")
        return definition

    def _check_known(self, name: str) -> None:
        """Raises: InputError, NotFound for a name that no model has, loaded or not."""
        if not is_model_name(name):
            raise invalid_name(name)
        if name not in self._statuses:
            self._find(name)

    def _check_allowed(self, name: str) -> None:
        if not is_model_name(name):
            raise invalid_name(name)
        if self._frozen:
            raise PermissionDenied(
                "loading and unloading are off under model_control_mode none; start with --model-control-mode explicit"
            )


def _width(config: ModelConfig) -> str:
    """What the line about a model that is ready says of wide executions."""
    if not config.wide_reason:
        return ""
    return (
        f" (wide up to {config.wide_rows} rows: {config.wide_reason})"
        if config.wide_rows
        else (f" (never wide: {config.wide_reason})")
    )

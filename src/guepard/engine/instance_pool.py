"""The instances of one served model: which are free, which are being mended, and the one that has all CPUs."""

from collections.abc import Callable, Mapping, Sequence

from guepard.backends.base import Executor
from guepard.batching.dynamic_batcher import Batch
from guepard.core.buffers import BufferPool
from guepard.core.model_config import SECOND, ModelConfig
from guepard.core.reasons import LossReason
from guepard.engine.cpu_permits import CpuPermits, CpuShare
from guepard.engine.instance import InlineInstance, Instance, InstanceOwner, ThreadInstance
from guepard.engine.model_hooks import HookedExecutor
from guepard.engine.patience import Patience
from guepard.engine.processes.executor import ProcessExecutor
from guepard.engine.processes.instance import ProcessInstance
from guepard.engine.warmup import warm_up

_MS_NS = 1_000_000
_RETRY_AFTER_MS = 1_000  # for what takes no pause


class InstancePool:
    """Makes the instances and hands them out. Belongs to the event loop's thread.

    `wide` executes batches that may have all CPUs when the `permits` for them are free; an execution on an instance's
    thread waits for `cpus` of them, 0 for none. The rest is as the instances and ServedModel have it.
    """

    def __init__(
        self,
        config: ModelConfig,
        executors: Sequence[Executor],
        owner: InstanceOwner,
        post: Callable[..., object],
        *,
        wide: Executor | None,
        permits: CpuPermits | None,
        cpus: int,
        buffers: BufferPool | None,
    ) -> None:
        self._config = config
        self._owner = owner
        self._post = post
        self._permits = permits or CpuPermits(1)
        self._cpus = cpus
        self._patience = Patience()
        self._buffers = buffers
        self._idle: list[Instance] = [self._instance(executor, number) for number, executor in enumerate(executors)]
        self._instances: tuple[Instance, ...] = tuple(self._idle)
        self._ailing: dict[Instance, str] = {}  # instances that are being mended, and what is known of why they are not
        # One more, on which a batch runs in place of an idle one: it is never busy together with another.
        self._wide = None if wide is None else ThreadInstance(wide, config, owner, post, len(self._instances))
        self._all_cpus = self._share(self._permits.count)
        self._wide_batch: Batch | None = None

    def take(self, batch: Batch) -> Instance:
        """The instance that is to run `batch`. One must be free."""
        if batch.wide and self._wide is not None and self._all_cpus.try_enter():
            self._wide_batch = batch
            return self._wide
        return self._idle.pop()

    def runs_wide(self, batch: Batch) -> bool:
        """Whether `batch`, which runs, was given all CPUs."""
        return batch is self._wide_batch

    def give_back(self, instance: Instance, batch: Batch) -> bool:
        """`batch` is over. False when the instance is not free, but has to be mended, which begins then."""
        if batch is self._wide_batch:
            self._wide_batch = None
            self._all_cpus.leave()
            return True
        if instance.is_fit:
            self._idle.append(instance)
            return True
        self._mend(instance)
        return False

    def lose(self, instance: Instance) -> bool:
        """`instance` may not be fit any more. True for one that was idle; one that executes meets that by itself."""
        if instance not in self._idle or instance.is_fit:
            return False
        self._idle.remove(instance)
        self._mend(instance)
        return True

    def mended(self, instance: Instance) -> bool:
        """`instance` is fit and free again. False when the pool was dissolved meanwhile."""
        if self._ailing.pop(instance, None) is None:
            return False
        self._idle.append(instance)
        return True

    def note_failure(self, instance: Instance, reason: str) -> bool:
        """`instance` could not be mended. True when no instance runs and none could be started."""
        if instance in self._ailing:
            self._ailing[instance] = reason
        return self._has_none and all(self._ailing.values())

    @property
    def obstacle(self) -> str | None:
        """Why no instance runs; None when one does."""
        if not self._has_none:
            return None
        instance = self._next
        reason = self._ailing[instance]
        if not reason:
            return "its process was lost and another is being started"
        pause_ns = instance.pause_ns
        return f"{reason}; the next process starts in {pause_ns / SECOND:.3g} s" if pause_ns else reason

    @property
    def retry_after_ms(self) -> int:
        """When an instance may run again; for when none does."""
        return max(_RETRY_AFTER_MS, -(-self._next.pause_ns // _MS_NS)) if self._ailing else _RETRY_AFTER_MS

    @property
    def processes(self) -> list[ProcessExecutor]:
        """Those that instances run in; none unless the execution is `process`."""
        return [instance.process for instance in self._instances if isinstance(instance, ProcessInstance)]

    @property
    def losses(self) -> Mapping[LossReason, int]:
        """How many processes were lost, by why."""
        counts = dict.fromkeys(LossReason, 0)
        for process in self.processes:
            for reason, count in process.losses.items():
                counts[reason] += count
        return counts

    @property
    def buffers(self) -> Mapping[int, BufferPool]:
        """The memory pools of those instances that have their own, by their numbers."""
        pools = {number: instance.own_buffers for number, instance in enumerate(self._instances)}
        return {number: pool for number, pool in pools.items() if pool is not None}

    def dissolve(self) -> Sequence[Instance]:
        """Stop all instances, and let go of them. Returns them, each to be joined."""
        instances = self._instances if self._wide is None else (*self._instances, self._wide)
        self._instances, self._wide = (), None
        self._idle.clear()
        self._ailing.clear()
        for instance in instances:
            instance.stop()
        return instances

    @property
    def _has_none(self) -> bool:
        return len(self._ailing) == len(self._instances) > 0

    @property
    def _next(self) -> Instance:
        """Of those that are being mended the one that tries next; of equals one of which more is known."""
        return min(self._ailing, key=lambda instance: (instance.pause_ns, not self._ailing[instance]))

    def _mend(self, instance: Instance) -> None:
        self._ailing[instance] = ""
        instance.mend()

    def _instance(self, executor: Executor, number: int) -> Instance:
        if self._config.execution == "inline":
            return InlineInstance(executor, self._config, self._owner, self._buffers)
        bare = executor.bare if isinstance(executor, HookedExecutor) else executor
        if isinstance(bare, ProcessExecutor):
            return ProcessInstance(bare, self._config, self._owner, self._post, number, self._prepare, executor)
        share = self._share(self._cpus) if self._cpus else None
        return ThreadInstance(executor, self._config, self._owner, self._post, number, share, self._buffers)

    def _share(self, cpus: int) -> CpuShare:
        return self._permits.share(cpus, self._patience, self._config.name)

    def _prepare(self, executor: ProcessExecutor) -> None:
        warm_up(self._config.name, executor, executor.description, 1)

"""`batching/dynamic_batcher.py`: requests in, batches out, on an instance that is done at once."""

from benchmarks.micro.stage.models import CONFIG
from benchmarks.micro.stage.requests import bound, request
from benchmarks.micro.stage.scheduler import HandScheduler
from benchmarks.micro.timing.case import Case
from guepard.batching.dynamic_batcher import Batch, DynamicBatcher
from guepard.core.model_config import MILLISECOND, DynamicBatching
from guepard.engine.signature import Signature


class WaitingRoom:
    def __init__(self, delay_ns: int = 0) -> None:
        self.scheduler = HandScheduler()
        self.batcher = DynamicBatcher(
            max_batch_size=64,
            batching=DynamicBatching(max_queue_delay_ns=delay_ns),
            instances=1,
            max_concurrency=4_096,
            scheduler=self.scheduler,
            release=self._run,
        )

    def _run(self, batch: Batch) -> None:
        self.batcher.instance_freed(batch, 5_000)


def _case(size: int, delay_ns: int = 0) -> Case:
    room = WaitingRoom(delay_ns)
    requests = bound(Signature(CONFIG), [request() for _ in range(size)])

    def turn() -> None:
        for each in requests:
            room.batcher.enqueue(each)
        room.scheduler.turn()

    return Case(f"{size} a turn" + (", under a delay" if delay_ns else ""), turn, size)


def cases() -> list[Case]:
    return [*[_case(size) for size in (1, 8, 64)], _case(64, MILLISECOND)]

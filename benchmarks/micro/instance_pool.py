"""`engine/instance_pool.py`: an instance out and back."""

from typing import cast

from benchmarks.micro.instance import Owner
from benchmarks.micro.stage.models import CONFIG, ReadyAnswers
from benchmarks.micro.timing.case import Case
from guepard.batching.dynamic_batcher import Batch
from guepard.core.reasons import ReleaseReason
from guepard.engine.instance import InstanceOwner
from guepard.engine.instance_pool import InstancePool


def cases() -> list[Case]:
    pool = InstancePool(
        CONFIG,
        [ReadyAnswers()],
        cast(InstanceOwner, Owner()),
        lambda *callback: None,
        wide=None,
        permits=None,
        cpus=0,
        buffers=None,
    )
    batch = Batch([], 1, ReleaseReason.IDLE)

    def out_and_back() -> None:
        pool.give_back(pool.take(batch), batch)

    return [Case("out and back", out_and_back)]

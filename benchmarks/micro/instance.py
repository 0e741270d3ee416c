"""`engine/instance.py`, with an executor that has its answers ready: on the loop, and on a thread and back."""

from queue import SimpleQueue
from typing import Any

from benchmarks.micro.stage.models import CONFIG, ReadyAnswers
from benchmarks.micro.stage.requests import bound, request
from benchmarks.micro.timing.case import Case
from guepard.batching.dynamic_batcher import Batch
from guepard.core.reasons import ReleaseReason
from guepard.engine.instance import InlineInstance, ThreadInstance
from guepard.engine.signature import Signature


class Owner:
    def executed(self, *_: Any) -> None:
        pass

    lost = streamed = stream_ended = instance_lost = instance_mended = instance_down = executed


def cases() -> list[Case]:
    batch = Batch(list(bound(Signature(CONFIG), [request()])), 1, ReleaseReason.IDLE)
    posted: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    inline = InlineInstance(ReadyAnswers(), CONFIG, Owner())
    thread = ThreadInstance(ReadyAnswers(), CONFIG, Owner(), lambda *callback: posted.put(callback), 0)

    def there_and_back() -> None:
        thread.start(batch)
        callback, *arguments = posted.get(timeout=10)
        callback(*arguments)

    def close() -> None:
        thread.stop()
        assert thread.join(10)

    return [Case("inline", lambda: inline.start(batch)), Case("thread, there and back", there_and_back, close=close)]

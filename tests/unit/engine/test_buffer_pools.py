"""What the pools of a process hold, and that what lies idle in them goes back."""

import asyncio

from guepard.engine.buffer_pools import BufferPools
from guepard.engine.data_plane import DataPlane
from guepard.memory.heap_arena import HeapArena
from guepard.memory.slab_pool import SlabPool
from tests.unit.engine.stage import Stage

SLAB = 4_096


def pool(leases: int) -> SlabPool:
    """One that has so many free slabs."""
    pool = SlabPool(HeapArena(), limit_bytes=2**20)
    held = [pool.lease(SLAB) for _ in range(leases)]
    held.clear()
    return pool


def test_the_servers_pool_and_those_of_instances_are_read_by_name() -> None:
    plain, own = Stage(), Stage(name="own", version="7")
    own.executor.buffers = pool(2)
    data_plane = DataPlane()
    data_plane.publish({"m": plain.served, "own": own.served}, {})
    found = BufferPools(data_plane, pool(1)).samples()
    assert [(*sample[:4], sample.statistics.free_bytes) for sample in found] == [
        ("server", "", "", "", SLAB),
        ("inputs", "own", "7", "0", 2 * SLAB),
    ]
    assert BufferPools(DataPlane(), None).samples() == []


def test_what_lies_idle_goes_back_and_what_was_used_of_late_stays() -> None:
    stage = Stage()
    server, own = pool(1), pool(1)
    data_plane = DataPlane()

    async def run(idle_s: float) -> None:
        """Until the pools have been trimmed twice."""
        trimmed = asyncio.Semaphore(0)
        loop = asyncio.get_running_loop()

        class Last(SlabPool):
            def trim(self, idle_ns: int) -> int:
                loop.call_soon_threadsafe(trimmed.release)
                return 0

        stage.executor.buffers = own
        last = Stage()
        last.executor.buffers = Last(HeapArena(), limit_bytes=0)
        data_plane.publish({"m": stage.served, "n": last.served}, {})
        task = asyncio.ensure_future(BufferPools(data_plane, server, idle_s=idle_s, period_s=0).run())
        async with asyncio.timeout(10):
            for _ in range(2):
                await trimmed.acquire()
        task.cancel()

    asyncio.run(run(idle_s=3_600))
    assert server.statistics().free_bytes == own.statistics().free_bytes == SLAB
    asyncio.run(run(idle_s=0))
    assert server.statistics().shrunk_count == own.statistics().shrunk_count == 1

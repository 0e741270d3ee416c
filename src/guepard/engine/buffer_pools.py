"""The memory pools of this process: what they hold, and the end of what lies idle in them."""

import asyncio
from collections.abc import Iterator

from guepard.core.buffers import BufferPool
from guepard.engine.background import in_thread
from guepard.engine.data_plane import DataPlane
from guepard.telemetry.metrics import PoolSample

PERIOD_S = 5.0
IDLE_S = 30.0

SERVER = "server"
INPUTS = "inputs"


class BufferPools:
    """The server's own pool, if it has one, and those of the instances of whichever models are served.

    What lay idle for `idle_s` goes back to the system, within another period.
    """

    def __init__(
        self,
        data_plane: DataPlane,
        server: BufferPool | None,
        *,
        idle_s: float = IDLE_S,
        period_s: float = PERIOD_S,
    ) -> None:
        self._data_plane = data_plane
        self._server = server
        self._idle_ns = int(idle_s * 1e9)
        self._period_s = period_s

    def samples(self) -> list[PoolSample]:
        return [PoolSample(*labels, pool.statistics()) for labels, pool in self._pools()]

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await in_thread("trim-pools", self._trim)

    def _trim(self) -> None:
        for _, pool in self._pools():
            pool.trim(self._idle_ns)

    def _pools(self) -> Iterator[tuple[tuple[str, str, str, str], BufferPool]]:
        if self._server is not None:
            yield (SERVER, "", "", ""), self._server
        for served in self._data_plane.served().values():
            config = served.config
            for number, pool in served.pools().items():
                yield (INPUTS, config.name, config.version, str(number)), pool

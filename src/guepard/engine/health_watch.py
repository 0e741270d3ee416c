"""Asks every served model now and then whether it is fit, beside the event loop."""

import asyncio
import logging

from guepard.engine.background import in_thread
from guepard.engine.data_plane import DataPlane
from guepard.engine.processes.worker_process import RemoteAilment
from guepard.engine.served_model import ServedModel

log = logging.getLogger(__name__)

PERIOD_S = 5.0


class HealthWatch:
    """A model whose `health` raises, or does not return within a period, is not ready until it is well again.

    Requests that come all the same are served: whoever balances the load reads readiness, and the model may know best.
    """

    def __init__(self, data_plane: DataPlane, period_s: float = PERIOD_S) -> None:
        self._data_plane = data_plane
        self._period_s = period_s
        self._looks: dict[ServedModel, asyncio.Task[None]] = {}  # those that have not returned

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await asyncio.gather(*[self._look_at(served) for served in self._data_plane.served().values()])

    async def _look_at(self, served: ServedModel) -> None:
        config = served.config
        ailment = None
        # One that hangs is waited for again rather than asked again: each look holds a thread.
        look = self._looks.get(served) or asyncio.ensure_future(in_thread(f"health-{config.name}", served.health))
        self._looks[served] = look
        look.add_done_callback(lambda _: self._looks.pop(served, None))
        try:
            await asyncio.wait_for(asyncio.shield(look), self._period_s)
        except TimeoutError:
            ailment = f"its health check did not return within {self._period_s:g} s"
        except Exception as error:
            kind = error.kind if isinstance(error, RemoteAilment) else type(error).__name__
            ailment = f"its health check raised {kind}"
            if served.ailment is None:
                log.warning("model %s version %s is unfit", config.name, config.version, exc_info=error)
        if (ailment is None) != (served.ailment is None):
            log.info("model %s version %s: %s", config.name, config.version, ailment or "fit again")
        served.ailment = ailment

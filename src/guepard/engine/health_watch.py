"""Asks every served model now and then whether it is fit, beside the event loop."""

import asyncio
import logging

from guepard.engine.background import in_thread
from guepard.engine.data_plane import DataPlane
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

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await asyncio.gather(*[self._look_at(served) for served in self._data_plane.served().values()])

    async def _look_at(self, served: ServedModel) -> None:
        config = served.config
        ailment = None
        try:
            await asyncio.wait_for(in_thread(f"health-{config.name}", served.health), self._period_s)
        except TimeoutError:
            ailment = f"its health check did not return within {self._period_s:g} s"
        except Exception as error:
            ailment = f"its health check raised {type(error).__name__}"
            if served.ailment is None:
                log.warning("model %s version %s is unfit", config.name, config.version, exc_info=error)
        if (ailment is None) != (served.ailment is None):
            log.info("model %s version %s: %s", config.name, config.version, ailment or "fit again")
        served.ailment = ailment

"""Long JSON bodies, read beside the loop on a few threads: one at a time on each, the others wait their turn."""

import asyncio
import logging
import time
from collections.abc import Callable

from guepard.core.errors import GuepardError, InternalError
from guepard.core.request import InferenceRequest
from guepard.server.http.coders import Coders
from guepard.server.http.endpoint import Exchange

log = logging.getLogger(__name__)

LARGE_BODY = 262_144
"""Bodies from here on are read beside the loop: a millisecond of it, or ten times what a change of threads costs."""

_PAUSE_S = 50e-6

Pause = Callable[[], None]


class BodyDecoding:
    """One body that `decode` reads: what it gives is for `execute`, what it raises for `refuse`."""

    bytes_out = 0

    def __init__(
        self,
        exchange: Exchange,
        decoders: Coders,
        decode: Callable[[Pause], InferenceRequest],
        execute: Callable[[InferenceRequest], None],
        refuse: Callable[[GuepardError], None],
    ) -> None:
        self._exchange = exchange
        self._decoders = decoders
        self._decode = decode
        self._execute = execute
        self._refuse = refuse
        self._has_left = False
        self._task = asyncio.ensure_future(self._run())

    def cancel(self) -> None:
        self._has_left = True
        self._task.cancel()

    def resume(self) -> None:
        """The client reads what it has asked for before; that is no news here."""

    async def _run(self) -> None:
        exchange = self._exchange
        try:
            try:
                request = await self._decoders.run(self._decode, self._pause)
            except GuepardError as error:
                exchange.wait_for(None)
                self._refuse(error)
            else:
                exchange.wait_for(None)
                self._execute(request)
        except GuepardError as error:  # the model has gone meanwhile
            exchange.fail_with(error)
        except Exception:
            log.exception("a request body could not be read")
            exchange.fail_with(InternalError("the request could not be served; the server's log says why"))

    def _pause(self) -> None:
        """Let the loop have the interpreter, for which it would otherwise wait 5 ms each time. Runs beside it.

        Raises: asyncio.CancelledError when nobody waits for the body any more.
        """
        if self._has_left:
            raise asyncio.CancelledError
        time.sleep(_PAUSE_S)

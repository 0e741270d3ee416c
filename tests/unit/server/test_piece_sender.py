"""What an answer in pieces holds, and for how long."""

import asyncio
import gc
import weakref
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from guepard.server.http.answer_coding import BodyPieces
from guepard.server.http.coders import Coders
from guepard.server.http.piece_sender import PieceSender


class Source(BodyPieces):
    """One that can be watched."""


@pytest.mark.parametrize("accepted", [b"gzip", b"identity"])
def test_a_client_that_leaves_takes_its_tensors_along(accepted: bytes) -> None:
    async def left_behind() -> Any:
        source = Source([bytes(1_000_000)])
        held = weakref.ref(source)
        head: Any = SimpleNamespace(version="1.1", path="/", method="GET", headers={b"accept-encoding": accepted})
        written = asyncio.Event()
        outlet = Mock(is_blocked=True)
        outlet.write_pieces.side_effect = lambda data: written.set()
        sender = PieceSender(outlet, Coders(), head, 200, b"", source)
        del source
        await asyncio.wait_for(written.wait(), 10)
        sender.cancel()
        await asyncio.wait([sender._task])
        await asyncio.sleep(0)
        return held()

    gc.disable()
    try:
        assert asyncio.run(left_behind()) is None
    finally:
        gc.enable()

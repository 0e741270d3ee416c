"""What all connections of a listener share."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from guepard.core.buffers import BufferPool
from guepard.limits.admission import Admission
from guepard.protocols.error_body import OWN_STATUSES, StatusTable
from guepard.server.http.coders import Coders
from guepard.server.http.head_memo import HeadMemo
from guepard.server.http.response_writer import DateHeader
from guepard.telemetry.access_log import AccessLog
from guepard.telemetry.metrics import MetricsRegistry

if TYPE_CHECKING:
    from guepard.server.http.connection import HttpConnection
    from guepard.server.http.router import Router


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Sizes in bytes, times in nanoseconds."""

    max_request_bytes: int
    header_timeout_ns: int
    body_timeout_ns: int
    keep_alive_ns: int
    max_head_bytes: int = 65_536
    max_headers: int = 128


@dataclass(slots=True)
class HttpContext:
    """`buffers` is where large bodies are collected; None: anywhere."""

    router: "Router"
    limits: HttpLimits
    admission: Admission
    metrics: MetricsRegistry
    access_log: AccessLog
    statuses: StatusTable = OWN_STATUSES
    coders: Coders = field(default_factory=Coders)
    decoders: Coders = field(default_factory=Coders.for_bodies)
    buffers: BufferPool | None = None
    date: DateHeader = field(default_factory=DateHeader)
    heads: HeadMemo = field(default_factory=HeadMemo)
    connections: "set[HttpConnection]" = field(default_factory=set)
    draining: bool = False
    emptied: asyncio.Event = field(default_factory=asyncio.Event)

    def forget(self, connection: "HttpConnection") -> None:
        """A connection has ended. The last one to do so while draining sets `emptied`."""
        self.connections.discard(connection)
        if self.draining and not self.connections:
            self.emptied.set()

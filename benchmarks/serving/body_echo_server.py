"""The bare echo of bodies: the least that can be done for a large body. The yardstick of `bodies.py`.

The kernel writes each body where it is to lie, the same place for all, and reads the answer from there: no copy in
user space, no page that is new. So it serves one connection at a time. uvloop and one `asyncio.BufferedProtocol`; heads
are not understood, only their Content-Length is found.
"""

import argparse
import asyncio
import re
from typing import cast

import uvloop

MEMORY = bytearray(1 << 27)
READ = 256_000
HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class BodyEcho(asyncio.BufferedProtocol):
    """One connection, one request at a time. Each read takes as much as uvloop's own would."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.memory = MEMORY
        self.filled = 0
        self.end = 0  # of the message that is coming, once its head is there

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.memory)[self.filled : self.filled + READ]

    def buffer_updated(self, nbytes: int) -> None:
        self.filled += nbytes
        if not self.end:
            start = self.memory.find(HEAD_END, 0, self.filled) + len(HEAD_END)
            if start < len(HEAD_END):
                return
            found = LENGTH.search(self.memory, 0, start)
            self.start, self.end = start, start + (int(found[1]) if found else 0)
        if self.filled >= self.end:
            head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (self.end - self.start)
            self.transport.writelines([head, memoryview(self.memory)[self.start : self.end]])
            self.filled = self.end = 0


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(BodyEcho, "127.0.0.1", port, backlog=512)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(serve(parser.parse_args().port))

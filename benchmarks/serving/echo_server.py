"""The bare echo: the least that Python can do for a request while it parses HTTP properly. The yardstick of overhead.

uvloop, httptools and one `asyncio.Protocol`: the body is read to its end and the same small JSON is always the answer.
No routes, no limits, no time-outs, no log.
"""

import argparse
import asyncio
from typing import cast

import httptools
import uvloop

BODY = b'{"output":[0.3818023204803467,0.6181976799150085]}'
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Echo(asyncio.Protocol):
    """One connection. httptools calls back once per request, so pipelined ones are answered in order."""

    __slots__ = ("body", "parser", "transport")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.parser = httptools.HttpRequestParser(self)
        self.body = b""

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.write(BAD_REQUEST)
            self.transport.close()

    def on_message_begin(self) -> None:
        self.body = b""

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.transport.write(OK)
        if not self.parser.should_keep_alive():
            self.transport.close()


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port, backlog=512)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(serve(parser.parse_args().port))

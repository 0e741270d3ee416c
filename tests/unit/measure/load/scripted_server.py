"""A server that answers the n-th request on a connection as a script says, on a thread, on loopback."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

Step = bytes | float | str
"""Bytes to send, seconds to wait, or one of `close`, `reset`, `read`."""
Script = Sequence[Step]


@dataclass
class ScriptedServer:
    port: int
    connections: int = 0
    requests: int = 0


@contextmanager
def scripted_server(script: Callable[[int], Script]) -> Iterator[ScriptedServer]:
    """`script` gets the number of the request, counted over all connections from 0."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = ScriptedServer(listener.getsockname()[1])
    threads: list[threading.Thread] = []
    ended = threading.Event()
    open_ones: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server.connections += 1
                open_ones.append(connection)
                thread = threading.Thread(target=converse, args=(connection,))
                threads.append(thread)
                thread.start()

    def converse(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while read_request(connection):
                number = server.requests
                server.requests += 1
                for step in script(number):
                    if isinstance(step, bytes):
                        connection.sendall(step)
                    elif isinstance(step, float):
                        if ended.wait(step):
                            return
                    elif step == "reset":
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return
                    else:
                        return

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield server
    finally:
        ended.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for connection in open_ones:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def read_request(connection: socket.socket) -> bool:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65_536)
        if not more:
            return False
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or b"0")
    while len(body) < length:
        more = connection.recv(65_536)
        if not more:
            return False
        body += more
    return True

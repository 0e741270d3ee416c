"""The client of `large_answer.py`: `python -m benchmarks.serving.neighbours PORT SECONDS [CODING]`.

Asks the tiny model again and again over one connection for SECONDS. With a CODING (`identity` or one of HTTP's) a
second process asks for large answers meanwhile, and reads them as fast as they come. Prints one JSON document.
"""

import http.client
import json
import os
import socket
import sys
import time
from typing import Any

from benchmarks.models import EXPAND, MLP
from benchmarks.serving.payload import Payload, json_payload

BUFFER = 1_048_576


def message(payload: Payload, coding: str = "identity") -> bytes:
    head = [f"POST {payload.path} HTTP/1.1", "Host: 127.0.0.1", f"Accept-Encoding: {coding}"]
    head += [f"{name}: {value}" for name, value in payload.headers.items()]
    head += [f"Content-Length: {len(payload.body)}", "", ""]
    return "\r\n".join(head).encode() + payload.body


def latencies_ms(port: int, seconds: float) -> list[float]:
    """Of small requests, one after another."""
    asked = message(json_payload(MLP))
    found = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            connection.sendall(asked)
            answer = connection.recv(65_536)
            found.append((time.perf_counter() - started) * 1e3)
            assert answer.startswith(b"HTTP/1.1 200"), answer
    return found


def read_large(port: int, seconds: float, coding: str) -> list[dict[str, float]]:
    """Large answers one after another: how long each took, and its bytes on the wire."""
    payload = json_payload(EXPAND)
    buffer = bytearray(BUFFER)
    found = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", payload.path, payload.body, {**payload.headers, "Accept-Encoding": coding})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        size = 0
        while count := answer.readinto(buffer):
            size += count
        connection.close()
        found.append({"seconds": time.perf_counter() - started, "bytes": size})
    return found


def main() -> None:
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    coding = sys.argv[3] if len(sys.argv) > 3 else None
    result: dict[str, Any] = {"coding": coding, "large": []}
    if coding is None:
        result["latencies_ms"] = latencies_ms(port, seconds)
    else:
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writable, json.dumps(read_large(port, seconds + 0.5, coding)).encode())
            os._exit(0)
        os.close(writable)
        time.sleep(0.2)
        result["latencies_ms"] = latencies_ms(port, seconds)
        with os.fdopen(readable) as told:
            result["large"] = json.loads(told.read())
        os.waitpid(child, 0)
    print(json.dumps(result))


if __name__ == "__main__":
    main()

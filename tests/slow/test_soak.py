"""Minutes of mixed traffic, bad clients and reloads: every answer right, and memory, descriptors and threads flat."""

import http.client
import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from guepard.testing.running_server import RunningServer
from tests.services import onnx_models
from tests.services.onnx_models import write_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETTLE_S = 20
SOAK_S = 100
WIDTHS = (1, 3, 17, 64, 257)


class Process:
    """What the kernel says of a process."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    @property
    def rss_mib(self) -> float:
        pages = int((self._folder / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    @property
    def descriptors(self) -> int:
        return len(list((self._folder / "fd").iterdir()))

    @property
    def threads(self) -> int:
        return len(list((self._folder / "task").iterdir()))


class Traffic:
    """Threads that each repeat one kind of client until `stop`. What a client raises ends the test."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers = 0
        self.failures: list[BaseException] = []
        self._stop = threading.Event()
        kinds = (self.right, self.right, self.right, self.wrong, self.leaving, self.unknown_paths, self.reloading)
        self._threads = [threading.Thread(target=self._repeat, args=(kind, n)) for n, kind in enumerate(kinds)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, kind: Callable[[random.Random, http.client.HTTPConnection], None], seed: int) -> None:
        chance = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            while not self._stop.is_set() and not self.failures:
                kind(chance, connection)
        except BaseException as error:
            self.failures.append(error)
        finally:
            connection.close()

    def _post(
        self, connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def right(self, chance: random.Random, connection: http.client.HTTPConnection) -> None:
        """Rows of many widths and counts, each of which must come back to its own caller."""
        rows, width = chance.randint(1, 9), chance.choice(WIDTHS)
        values = [chance.randint(-(10**6), 10**6) for _ in range(rows * width)]
        tensor = {"name": "x", "datatype": "INT64", "shape": [rows, width]}
        if chance.random() < 0.5:
            body = json.dumps({"inputs": [tensor | {"data": values}], "id": str(chance.random())}).encode()
            headers = {"X-Request-Id": str(chance.random())}
        else:
            data = struct.pack(f"<{len(values)}q", *values)
            head = json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": len(data)}}]}).encode()
            body, headers = head + data, {"Inference-Header-Content-Length": str(len(head))}
        status, content = self._post(connection, "/v2/models/ident/infer", body, headers)
        assert status == 200, content
        assert json.loads(content)["outputs"][0]["data"] == values
        self.answers += 1

    def wrong(self, chance: random.Random, connection: http.client.HTTPConnection) -> None:
        body = json.dumps({"inputs": [{"name": "x", "datatype": "INT64", "shape": [2], "data": [chance.random()]}]})
        status, content = self._post(connection, "/v2/models/ident/infer", body.encode(), {})
        assert status == 400, content

    def leaving(self, chance: random.Random, connection: http.client.HTTPConnection) -> None:
        """A client that cuts its connection in the middle of a body, or while it waits for the answer."""
        body = b'{"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 3], "data": [1, 2, 3]}]}'
        head = b"POST /v2/models/ident/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset at the end
            client.sendall((head + body)[: chance.randint(1, len(head) + len(body))])

    def unknown_paths(self, chance: random.Random, connection: http.client.HTTPConnection) -> None:
        connection.request("GET", f"/{chance.getrandbits(64):x}")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 404

    def reloading(self, chance: random.Random, connection: http.client.HTTPConnection) -> None:
        status, content = self._post(connection, "/v2/repository/models/ident/load", b"{}", {})
        assert status == 200, content
        self._stop.wait(0.2)


def test_a_soak_leaves_nothing_behind(tmp_path: Path) -> None:
    model = write_model(tmp_path / "ident.onnx", onnx_models.identity("INT64", ("n", "m")))
    with RunningServer(f"ident={model}", "--log-sample-rate", "0") as server:
        process = Process(server.process.pid)
        traffic = Traffic(server.http_port)
        threads_before = process.threads
        traffic.start()
        try:
            time.sleep(SETTLE_S)
            settled = process.rss_mib
            time.sleep(SOAK_S)
        finally:
            traffic.stop()
        assert not traffic.failures, traffic.failures
        after = process.rss_mib
        print(f"{traffic.answers} right answers, {settled:.0f} MiB after {SETTLE_S} s, {after:.0f} MiB at the end")
        assert traffic.answers > 5_000
        assert after < settled * 1.1 + 5
        assert server.request("GET", "/v2/health/ready").status == 200
        deadline = time.monotonic() + 10
        while process.descriptors > 40 or process.threads > threads_before + 2:
            assert time.monotonic() < deadline, f"{process.descriptors} descriptors, {process.threads} threads are left"
            time.sleep(0.1)
        assert "guepard_inflight_bytes 0.0" in server.metrics()
    assert server.process.returncode == 0

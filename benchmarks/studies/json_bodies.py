"""What does an image as JSON cost the server, and whom does it hold up: compiled, pure, and as bytes?

An identity model takes 150,528 FP32 (3 x 224 x 224), sent as flat V2 JSON of 2.9 MB, by two clients that wait for their
answer, which is binary. Beside them a client asks `/v2/health/live` every 5 ms. Told for each way: CPU time of the
server per request, and the longest and the median wait of that client. The ways take turns.

    python -m benchmarks.studies.json_bodies [--turns 3] [--seconds 3]
"""

import argparse
import os
import threading
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import orjson

from guepard.testing.running_server import RunningServer
from tests.services.onnx_models import identity, write_model

SHAPE = (1, 3, 224, 224)
CLIENTS = 2
WAYS = ("compiled", "pure", "binary")


class Turn(NamedTuple):
    cpu_ms: float
    waits_ms: list[float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    image = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    found: dict[str, list[Turn]] = {way: [] for way in WAYS}
    with ExitStack() as stack:
        path = write_model(Path(stack.enter_context(TemporaryDirectory())), identity("FP32", ["n", 3, 224, 224]))
        servers = {}
        for way in WAYS:
            env = {"GUEPARD_NO_COMPILED": "1" if way == "pure" else ""}
            servers[way] = stack.enter_context(RunningServer(f"image={path}", env=env))
        for _ in range(chosen.turns):
            for way, server in servers.items():
                found[way].append(drive(server, _message(way, image), chosen.seconds))
    print("| body | CPU ms a request | live: median ms | longest ms |\n|---|---|---|---|")
    for way, turns in found.items():
        waits = [wait for turn in turns for wait in turn.waits_ms]
        print(f"| {way} | {median(turn.cpu_ms for turn in turns):.1f} | {median(waits):.2f} | {max(waits):.1f} |")


def _message(way: str, image: np.ndarray) -> tuple[bytes, dict[str, str]]:
    tensor = {"name": "x", "datatype": "FP32", "shape": SHAPE}
    parameters = {"binary_data_output": True}
    if way != "binary":
        inputs = [{**tensor, "data": image.reshape(-1).tolist()}]
        return orjson.dumps({"inputs": inputs, "parameters": parameters}), {"Content-Type": "application/json"}
    sized = {**tensor, "parameters": {"binary_data_size": image.nbytes}}
    head = orjson.dumps({"inputs": [sized], "parameters": parameters})
    return head + image.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def drive(server: RunningServer, message: tuple[bytes, dict[str, str]], seconds: float) -> Turn:
    body, headers = message
    until = time.monotonic() + seconds
    counts, waits = [0] * CLIENTS, []

    def post(place: int) -> None:
        connection = HTTPConnection("127.0.0.1", server.http_port)
        while time.monotonic() < until:
            connection.request("POST", "/v2/models/image/infer", body, headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            counts[place] += 1
        connection.close()

    threads = [threading.Thread(target=post, args=(place,)) for place in range(CLIENTS)]
    before = _cpu_s(server.process.pid)
    for thread in threads:
        thread.start()
    connection = HTTPConnection("127.0.0.1", server.http_port)
    while time.monotonic() < until:
        begun = time.perf_counter()
        connection.request("GET", "/v2/health/live")
        connection.getresponse().read()
        waits.append((time.perf_counter() - begun) * 1e3)
        time.sleep(0.005)
    connection.close()
    for thread in threads:
        thread.join()
    return Turn((_cpu_s(server.process.pid) - before) * 1e3 / sum(counts), waits)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

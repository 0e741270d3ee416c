"""What a server keeps of the memory that requests of many shapes, and bursts of large ones, once took.

Sources: triton-inference-server/onnxruntime_backend#102 and microsoft/onnxruntime#11118, memory that grew with every
new shape; microsoft/onnxruntime#29538, gigabytes that an idle process kept.
"""

import http.client
import json
import random
import re
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from guepard.testing.running_server import RunningServer
from tests.services import onnx_models
from tests.services.callers import Call, SteadyLoad
from tests.services.memory import rss_mib
from tests.services.onnx_models import write_model
from tests.services.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

REQUESTS = 20_000
LENGTHS, BATCHES = (1, 512), (1, 8)
MODEL_MIB = 1
KEPT_FACTOR = 3  # documented: what is kept after a burst, over the size of the model; and the server's own
OWN_MIB = 16


def request(rows: int, length: int) -> dict[str, Any]:
    return {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [rows, length], "data": [1] * (rows * length)}]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "attention.onnx", onnx_models.attention())


def trimmed(server: RunningServer) -> float:
    found = re.search(r"^guepard_memory_trimmed_bytes_total (\S+)$", server.metrics(), re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("profile", ["standard", "low-memory"])
def test_memory_is_flat_whatever_the_shapes(model: Path, profile: str) -> None:
    chance = random.Random(1)
    with RunningServer(f"m={model}", "--profile", profile, "--log-sample-rate", "0") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)
        seen = []
        for number in range(REQUESTS):
            body = json.dumps(request(chance.randint(*BATCHES), chance.randint(*LENGTHS)))
            connection.request("POST", "/v2/models/m/infer", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 200, content
            if number % 50 == 49:
                seen.append(rss_mib(server))
        quarter = len(seen) // 4
        # Without an arena the heap's end comes and goes with the requests, by some 10 MiB; its usual place stays.
        quarters = [seen[start : start + quarter] for start in range(0, 4 * quarter, quarter)]
        medians = [median(part) for part in quarters]
        print(profile, "median and maximum of each quarter:", [(median(part), max(part)) for part in quarters])
        assert abs(medians[3] / medians[1] - 1) <= 0.02
        assert max(quarters[3]) <= max(seen[: 3 * quarter]) * 1.1


def test_after_a_burst_an_idle_server_is_small_again(model: Path) -> None:
    with RunningServer(f"m={model}", "--log-sample-rate", "0") as server:
        idle = rss_mib(server)
        burst = Call("m", json.dumps(request(32, 512)).encode())
        with SteadyLoad(server, burst, 4) as load:
            time.sleep(30)
        assert {reply.status for reply in load.replies} == {200}
        after, given_back = rss_mib(server), trimmed(server)
        wait_until(lambda: trimmed(server) > given_back, 30)
        kept = rss_mib(server) - idle
        print(f"{idle:.0f} MiB idle, {after:.0f} after the burst, {kept:.0f} kept")
        assert kept < MODEL_MIB * KEPT_FACTOR + OWN_MIB

"""A server's memory pools: they grow with large requests, are seen at /metrics, and shrink when these have gone."""

import json
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import guepard
from guepard.embedding.server import Server
from guepard.engine.buffer_pools import BufferPools
from tests.services.raw_http import RawClient, message
from tests.services.waiting import wait_until

FREE: dict[str, Any] = {"http_port": 0, "metrics_port": 0}
IDENT = {"name": "ident", "backend": "identity", "inputs": [{"name": "x", "datatype": "FP32", "dims": [-1]}]}
VALUES = np.arange(500_000, dtype=np.float32)
CLIENTS = 3

COPY = """
import guepard

class Copy(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [-1])]
    outputs = [guepard.Tensor("x", "FP32", [-1])]
    max_batch_size = 4

    def predict(self, inputs, ctx):
        return {"x": inputs["x"] + 0}
"""


def question(model: str) -> bytes:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, VALUES.size]}
    head = json.dumps(
        {
            "inputs": [tensor | {"parameters": {"binary_data_size": VALUES.nbytes}}],
            "outputs": [{"name": "x", "parameters": {"binary_data": True}}],
        }
    ).encode()
    length = f"Inference-Header-Content-Length: {len(head)}"
    return message("POST", f"/v2/models/{model}/infer", head + VALUES.tobytes(), [length])


def read(server: Server, pool: str) -> dict[str, float]:
    """Of one pool: bytes by their state, slabs by their change, and leases that were not pooled."""
    with urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = {}
    for sample in (sample for family in families for sample in family.samples):
        if sample.name.startswith("guepard_memory_pool") and sample.labels["pool"] == pool:
            found[sample.labels.get("state") or sample.labels.get("change") or "unpooled"] = sample.value
    return found


def has_shrunk(found: dict[str, float]) -> bool:
    return found["leased"] == found["free"] == 0 < found["grown"] == found["shrunk"]


def test_a_burst_of_large_requests_grows_the_pools_and_leaves_nothing_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guepard.server.app.BufferPools", partial(BufferPools, idle_s=0.1, period_s=0.05))
    (tmp_path / "copy.py").write_text(COPY)
    apart = {"name": "apart", "path": f"{tmp_path}/copy.py:Copy", "instance_group": {"execution": "process"}}
    with guepard.serve(config={"models": [IDENT, apart]}, trust=True, **FREE) as server:
        assert read(server, "server") == {"leased": 0, "free": 0, "grown": 0, "shrunk": 0, "unpooled": 0}
        clients = [RawClient(server.http_port) for _ in range(CLIENTS)]
        first, *_ = clients
        for model in ("ident", "apart"):
            assert first.ask(question(model)).body.endswith(VALUES.tobytes())
        for client in clients:  # with a head that is known by now
            client.send(question("ident")[:-1])
        wait_until(lambda: read(server, "server")["leased"] >= CLIENTS * VALUES.nbytes)
        for client in clients:
            client.send(question("ident")[-1:])
            assert client.answer().body.endswith(VALUES.tobytes())
            client.close()
        wait_until(lambda: has_shrunk(read(server, "server")))
        wait_until(lambda: has_shrunk(read(server, "inputs")))
        assert read(server, "server")["grown"] >= CLIENTS
        assert read(server, "server")["unpooled"] == read(server, "inputs")["unpooled"] == 0


def test_a_server_that_is_to_need_little_memory_has_no_pool() -> None:
    with guepard.serve(config={"models": [IDENT]}, profile="low-memory", **FREE) as server:
        with RawClient(server.http_port) as client:
            for _ in range(2):
                assert client.ask(question("ident")).body.endswith(VALUES.tobytes())
        assert read(server, "server") == {}

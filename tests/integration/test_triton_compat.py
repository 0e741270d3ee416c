"""`--triton-compat`: Triton's codes in the places where ours differ, and nowhere else."""

import threading
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.callers import one_input
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    (models / "guepard.yaml").write_text(
        f"models:\n  - name: sleep\n    path: '{PYTHON_MODELS}:Sleep'\n    trust: true\n    max_batch_size: 1\n"
        f"    dynamic_batching: {{max_queue_size: 1}}\n"
        f"  - {{name: broken, path: '{PYTHON_MODELS}:FailsToLoad', trust: true}}\n"
    )
    return serve("--config", models / "guepard.yaml", "--triton-compat")


def test_not_ready_is_400(server: RunningServer) -> None:
    ready = server.request("GET", "/v2/health/ready")
    assert (ready.status, ready.json["ready"]) == (400, False)
    for method, path in (("GET", "ready"), ("GET", "config"), ("POST", "infer")):
        answer = server.request(method, f"/v2/models/broken/{path}", {} if method == "POST" else None)
        assert (answer.status, answer.json["code"]) == (400, "not_ready"), path
    for method, path in (("GET", "/ping"), ("GET", "/v1/models/broken"), ("POST", "/v1/models/broken:predict")):
        answer = server.request(method, path, {} if method == "POST" else None)
        assert (answer.status, answer.json["code"]) == (400, "not_ready"), path
    assert server.request("HEAD", "/v2/health/ready").status == 400
    assert server.request("POST", "/v2/repository/models/broken/load", {}).status == 400


def test_over_grpc_not_ready_is_what_it_always_was(server: RunningServer) -> None:
    with tritonclient.grpc.InferenceServerClient(server.grpc_address) as client:
        assert not client.is_server_ready()
        assert not client.is_model_ready("broken")
        with pytest.raises(InferenceServerException) as caught:
            client.get_model_config("broken")
    assert caught.value.status() == str(grpc.StatusCode.UNAVAILABLE)


def test_a_full_queue_is_503_and_unavailable(server: RunningServer) -> None:
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(server.infer("sleep", one_input("INT32", [1_500])).status)

    def holds(executing: int, waiting: int) -> bool:
        text = server.metrics()
        wanted = (("guepard_executing_requests", executing), ("guepard_queue_depth", waiting))
        return all(f'{name}{{model="sleep",version="1"}} {float(count)}' in text for name, count in wanted)

    callers = [threading.Thread(target=ask) for _ in range(2)]
    callers[0].start()
    wait_until(lambda: holds(1, 0))
    callers[1].start()
    wait_until(lambda: holds(1, 1))
    refused = server.infer("sleep", one_input("INT32", [1]))
    assert (refused.status, refused.json["code"]) == (503, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1
    tensor = tritonclient.grpc.InferInput("x", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.ones((1, 1), np.int32))
    client = tritonclient.grpc.InferenceServerClient(server.grpc_address)
    with client, pytest.raises(InferenceServerException) as caught:
        client.infer("sleep", [tensor])
    assert caught.value.status() == str(grpc.StatusCode.UNAVAILABLE)
    for caller in callers:
        caller.join()
    assert statuses == [200, 200]


def test_other_codes_are_ours(server: RunningServer) -> None:
    assert server.request("GET", "/v2/models/unknown/ready").status == 404
    assert server.infer("sleep", one_input("FP32", [1])).status == 400
    assert server.infer("sleep", one_input("INT32", [200], parameters={"timeout": 1_000})).status == 504
    assert server.infer("unknown", one_input("INT32", [1])).status == 404

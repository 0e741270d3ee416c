"""Threads follow what the kernel allows, however many CPUs the machine has, and executions for nobody end early.

Source: microsoft/onnxruntime#29510, thread pools sized by the host and not by the CPU quota.
"""

import json
import re
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import Call, SteadyLoad, call_together, one_input
from tests.services.limited_cpus import cpu_quota, runnable_threads
from tests.services.onnx_models import write_model
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "process_models.py"

NUMBER = one_input("FP32", [1.0])
LOOKS = 100


@pytest.fixture(scope="module")
def slow(models: Path) -> Path:
    """About 50 ms on one core."""
    return write_model(models / "slow.onnx", onnx_models.slow(steps=20))


def threads_that_run(server: RunningServer) -> float:
    """How many threads of the server were runnable, on average over many looks."""
    looks = []
    for _ in range(LOOKS):
        looks.append(runnable_threads(server.process.pid))
        time.sleep(0.005)
    return sum(looks) / LOOKS


def test_a_quota_of_one_cpu_means_one_thread(slow: Path) -> None:
    with cpu_quota(1) as prefix, RunningServer(*(f"{name}={slow}" for name in "abc"), prefix=prefix) as server:
        assert "CPUs for models: 1 (quota 1, " in server.log_text()
        for name in "abc":
            assert "1 x thread" in server.wait_for_record(f"model {name} version")["message"]
        with (
            SteadyLoad(server, Call("a", NUMBER), 2) as a,
            SteadyLoad(server, Call("b", NUMBER), 2) as b,
            SteadyLoad(server, Call("c", NUMBER), 2) as c,
        ):
            for load in (a, b, c):
                load.wait_for_more(1)
            running = threads_that_run(server)
        # One of three computes. The event loop and the log have work now and then, and wait for a CPU on a busy one.
        assert running < 2.5
        for load in (a, b, c):
            assert {reply.data[0] for reply in load.replies} == {1.0}


def test_three_busy_models_share_the_budget_and_an_explicit_setting_wins(serve: Serve, slow: Path) -> None:
    server = serve(*(f"{name}={slow}" for name in "abc"), "--cpus", "2")
    assert "CPUs for models: 2, as configured (quota " in server.log_text()
    assert "2 x thread" in server.wait_for_record("model a version")["message"]
    with (
        SteadyLoad(server, Call("a", NUMBER)) as a,
        SteadyLoad(server, Call("b", NUMBER)) as b,
        SteadyLoad(server, Call("c", NUMBER)) as c,
    ):
        for load in (a, b, c):
            load.wait_for_more(1)
        running = threads_that_run(server)
    assert running < 4  # six instances have work, and two compute
    assert all(load.replies[-1].status == 200 for load in (a, b, c))


def test_nothing_burns_a_cpu_while_nothing_is_asked(serve: Serve, slow: Path) -> None:
    """An explicit count of 1 on two CPUs has a pool of two threads."""
    config = f"models: [{{name: wide, path: {slow}, instance_group: {{count: 1}}}}]\nserver: {{cpus: 2}}\n"
    (slow.parent / "wide.yaml").write_text(config)
    server = serve("--config", slow.parent / "wide.yaml")
    assert server.infer("wide", NUMBER).status == 200
    before = cpu_seconds(server)
    time.sleep(1)
    assert cpu_seconds(server) - before < 0.3


def cpu_seconds(server: RunningServer) -> float:
    found = re.search(r"^process_cpu_seconds_total (\S+)$", server.metrics(), re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_a_deadline_frees_the_instance_long_before_the_run_would_have_ended(serve: Serve, models: Path) -> None:
    path = write_model(models / "long.onnx", onnx_models.slow(steps=300))
    config = f"models: [{{name: long, path: {path}, max_batch_size: 0, instance_group: {{count: 1}}}}]\n"
    (models / "long.yaml").write_text(config)
    server = serve("--config", models / "long.yaml")
    (whole,) = call_together(server, [Call("long", NUMBER)])
    start = time.monotonic()
    (late,) = call_together(server, [Call("long", NUMBER, {"Guepard-Timeout-Ms": "100"})])
    assert late.status == 504
    wait_until(lambda: re.search(r"^guepard_executing_requests\{.*\} 0", server.metrics(), re.MULTILINE) is not None)
    assert time.monotonic() - start < 0.1 + whole.seconds / 2
    assert 'guepard_inference_terminations_total{model="long",version="1"} 1.0' in server.metrics()
    assert call_together(server, [Call("long", NUMBER)])[0].data == [1.0]


def test_a_deadline_ends_an_execution_in_a_process_that_goes_on(serve: Serve, models: Path) -> None:
    path = write_model(models / "far.onnx", onnx_models.endless())
    model = f"name: far, path: {path}, engine: onnxruntime, instance_group: {{execution: process, count: 1}}"
    config = f"models: [{{{model}}}]\n"
    (models / "far.yaml").write_text(config)
    server = serve("--config", models / "far.yaml")
    here, far = one_input("INT64", [0], [1]), one_input("INT64", [1], [1])
    for number in (1, 2):
        (late,) = call_together(server, [Call("far", far, {"Guepard-Timeout-Ms": "200"})])
        assert late.status == 504
        assert server.infer("far", here).json["outputs"][0]["data"] == [0]
        assert f'guepard_inference_terminations_total{{model="far",version="1"}} {number}.0' in server.metrics()
    assert not re.search(r'^guepard_instance_restarts_total\{model="far".*\} [1-9]', server.metrics(), re.MULTILINE)


def test_models_that_hang_do_not_stop_others_that_take_long(serve: Serve, slow: Path) -> None:
    """One of them has the only CPU's permit; the other, in Python, has let go of the interpreter."""
    endless = write_model(slow.parent / "endless.onnx", onnx_models.endless())
    (slow.parent / "hanging.yaml").write_text(
        f"""
models:
  - {{name: endless, path: {endless}, engine: onnxruntime}}
  - {{name: sleeps, path: '{PYTHON_MODELS}:Faulty', trust: true, instance_group: {{execution: thread}}}}
  - {{name: slow, path: {slow}}}
server: {{cpus: 1}}
"""
    )
    server = serve("--config", slow.parent / "hanging.yaml")
    assert "1 x thread" in server.wait_for_record("model endless version")["message"]
    hanging = {
        "endless": one_input("INT64", [1], [1]),
        "sleeps": one_input("INT32", [1], parameters={"do": "sleep", "seconds": 8}),
    }
    with closing(HTTPConnection(server.address)) as first, closing(HTTPConnection(server.address)) as second:
        for connection, (name, body) in zip((first, second), hanging.items(), strict=True):
            connection.request("POST", f"/v2/models/{name}/infer", json.dumps(body))
            wait_until(lambda name=name: is_executing(server, name))  # type: ignore[misc]
        replies = [call_together(server, [Call("slow", NUMBER)])[0] for _ in range(3)]
    assert [reply.data for reply in replies] == [[1.0]] * 3
    assert replies[0].seconds < 20
    assert replies[-1].seconds < 3  # what has been seen to hang is not waited for again
    assert "an execution of model endless has not ended after" in server.log_text()
    wait_until(lambda: not is_executing(server, "endless"))
    assert server.infer("endless", one_input("INT64", [0], [1])).json["outputs"][0]["data"] == [0]


def is_executing(server: RunningServer, name: str) -> bool:
    return f'guepard_executing_requests{{model="{name}",version="1"}} 1.0' in server.metrics()

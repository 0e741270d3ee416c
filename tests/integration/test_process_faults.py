"""Processes of models die, stop, hang, leak and write where they must not, and nobody but their own callers notices.

Sources: triton-inference-server/server#5381 (requests of a killed model process hung for ever), Lightning-AI/LitServe
PR#532 (all workers dead, health said OK).
"""

import os
import re
import signal
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.callers import Call, SteadyLoad, call_together, one_input
from tests.services.processes import (
    BACK_S,
    children_of,
    do,
    group_of,
    is_ready,
    is_running,
    pid_of,
    replaced,
    restarts,
)
from tests.services.raw_http import bounded
from tests.services.waiting import wait_until

MODELS = Path(__file__).parent.parent / "services" / "process_models.py"

ONE_PROCESS = "execution: process, count: 1"

# A model meets few of the faults: one that is lost again and again within a minute is given pauses.
INSTANCES = {
    "bystander": ("Faulty", ONE_PROCESS),
    "ends": ("Faulty", ONE_PROCESS),
    "stops": ("Faulty", ONE_PROCESS),
    "garbles": ("Faulty", ONE_PROCESS),
    "forks": ("Faulty", ONE_PROCESS),
    "programs": ("RunsPrograms", ONE_PROCESS),
    "retried": ("Retried", ONE_PROCESS),
    "two": ("Faulty", "execution: process, count: 2"),
    "large": ("LargeAnswer", ONE_PROCESS),
    "hangs": ("Faulty", f"{ONE_PROCESS}, instance_timeout: 700ms"),
    "grows": ("Faulty", f"{ONE_PROCESS}, memory_limit: 150MiB"),
}


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    lines = ["defaults: {trust: true, backend: python}", "models:"]
    for name, (entry, instances) in INSTANCES.items():
        lines.append(f"  - {{name: {name}, path: '{MODELS}:{entry}', instance_group: {{{instances}}}}}")
    (models / "guepard.yaml").write_text("\n".join(lines))
    return serve("--config", models / "guepard.yaml")


@pytest.fixture(scope="module", autouse=True)
def _bystander(server: RunningServer) -> Iterator[None]:
    """Whatever happens to others, this model answers, from one process, all the while."""
    before = pid_of(server, "bystander")
    with SteadyLoad(server, Call("bystander", one_input("INT32", [21]), delay_s=0.02), callers=1) as load:
        yield
    assert pid_of(server, "bystander") == before
    assert {reply.status for reply in load.replies} == {200}
    assert all(reply.json["outputs"][0]["data"] == [42] for reply in load.replies)
    assert server.request("GET", "/v2/health/live").status == 200


@pytest.mark.parametrize(
    ("fault", "fate"),
    [
        ("kill", "was killed by SIGKILL"),
        ("segfault", "was killed by SIGSEGV"),
        ("leave", "exited with code 7"),
    ],
)
def test_a_process_that_ends_in_a_batch(server: RunningServer, fault: str, fate: str) -> None:
    with replaced(server, "ends", "exited") as old, bounded(2):
        answer = do(server, "ends", fault)
        assert (answer.status, answer.json["code"]) == (500, "model_error")
        assert fate in answer.json["error"]
    assert fate in server.wait_for_record(f"model ends: the process of instance 0 (pid {old})")["message"]


def test_a_process_that_is_killed_while_idle_costs_nobody_an_answer(server: RunningServer) -> None:
    with replaced(server, "stops", "exited") as old:
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: not is_running(old))
        assert do(server, "stops").status == 200  # at once: whether the server knows already or not


def test_a_batch_of_an_idempotent_model_runs_once_more(server: RunningServer, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    answer = do(server, "retried", "kill_once", x=4, mark=str(mark))
    assert (answer.status, answer.json["outputs"][0]["data"]) == (200, [8])
    answer = do(server, "retried", "kill")
    assert (answer.status, answer.json["code"]) == (500, "model_error")
    assert restarts(server, "retried", "exited") == 3


def test_each_caller_of_a_lost_batch_is_answered(server: RunningServer) -> None:
    calls = [Call("retried", one_input("INT32", [number])) for number in range(6)]
    calls.append(Call("retried", one_input("INT32", [1], parameters={"do": "leave"})))
    *others, guilty = call_together(server, calls)
    assert guilty.status == 500
    assert [reply.json["outputs"][0]["data"] for reply in others] == [[2 * number] for number in range(6)]


def test_one_of_two_goes_on_while_the_other_is_replaced(server: RunningServer) -> None:
    with SteadyLoad(server, Call("two", one_input("INT32", [1])), callers=4) as load:

        def pids() -> set[int]:
            return {reply.json["outputs"][1]["data"][0] for reply in load.replies if reply.status == 200}

        wait_until(lambda: len(pids()) == 2)
        os.kill(min(pids()), signal.SIGKILL)
        load.wait_for_more(20)
        assert is_ready(server, "two")
        wait_until(lambda: len(pids()) == 3, BACK_S)
    assert len([reply for reply in load.replies if reply.status != 200]) <= 4  # those of the batch that ran there
    assert restarts(server, "two", "exited") == 1


def test_a_stopped_process_in_a_batch(server: RunningServer) -> None:
    with replaced(server, "stops", "stopped"), bounded(3):
        answer = do(server, "stops", "stop")
        assert answer.status == 500
        assert "was stopped and did not go on" in answer.json["error"]


def test_a_stopped_process_while_idle(server: RunningServer) -> None:
    with replaced(server, "stops", "stopped") as old:
        os.kill(old, signal.SIGSTOP)


@pytest.mark.parametrize("kill_after", [0.001, 0.01, 0.05])
def test_a_process_that_is_killed_while_it_hands_over_a_large_answer(server: RunningServer, kill_after: float) -> None:
    before = restarts(server, "large", "exited")
    parameters = {"binary_data_output": True}
    body = one_input("INT32", [1], [1], parameters=parameters | {"kill_after": kill_after})
    with bounded(4):
        answer = server.infer("large", body)
    assert answer.status == 500 or len(answer.body) > 64 * 2**20
    wait_until(lambda: restarts(server, "large", "exited") == before + 1, BACK_S)
    answer = server.infer("large", one_input("INT32", [1], [1], parameters=parameters))
    assert (answer.status, len(answer.body) > 64 * 2**20) == (200, True)


@pytest.mark.parametrize("fault", ["sleep", "hold", "chatter"])
def test_a_process_that_hangs(server: RunningServer, fault: str) -> None:
    with replaced(server, "hangs", "hung"), bounded(4):
        answer = do(server, "hangs", fault)
        assert answer.status == 500
        assert "did not answer within 0.7 s (instance_timeout)" in answer.json["error"]


GARBAGE = (b"secret" * 20).hex()


@pytest.mark.parametrize(
    "parameters",
    [
        {"socket": 0, "what": GARBAGE},
        {"socket": 1, "what": GARBAGE},
        {"what": b"GPRD\xff\xff\xff\x7f".hex()},  # of frames that promise 2 GB
    ],
    ids=["batches", "control", "half a frame"],
)
def test_garbage_in_a_socket(server: RunningServer, parameters: dict[str, Any]) -> None:
    with replaced(server, "garbles", "garbled"), bounded(4):
        answer = do(server, "garbles", "write_over_sockets", **parameters)
        if answer.status != 200:  # the server was quicker than the model
            assert answer.status == 500
            assert "wrote over its socket" in answer.json["error"]
            assert "secret" not in answer.json["error"]


def test_a_process_that_ends_a_conversation_and_goes_on(server: RunningServer) -> None:
    with replaced(server, "garbles", "garbled"):
        do(server, "garbles", "end_control")


def test_a_model_that_closes_all_that_is_open(server: RunningServer) -> None:
    with replaced(server, "stops", "exited"), bounded(3):
        assert do(server, "stops", "close_everything").status == 500


def test_a_fork_of_the_model_keeps_nothing_open(server: RunningServer) -> None:
    """It has all that its parent had: the end of that must be seen all the same, and nothing be left."""
    with replaced(server, "forks", "exited") as old:
        assert do(server, "forks", "fork").status == 200
        (child,) = children_of(old)
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: not is_running(child))
    with replaced(server, "forks", "exited") as old:
        with bounded(2):
            assert do(server, "forks", "fork_and_die").status == 500
        wait_until(lambda: not group_of(old))  # though it was told to end in vain


def test_a_fork_does_not_answer_in_place_of_the_instance(server: RunningServer) -> None:
    pid = pid_of(server, "forks")
    for x in range(5):
        answer = do(server, "forks", "fork_and_return", x=x)
        assert (answer.status, [output["data"] for output in answer.json["outputs"]]) == (200, [[2 * x], [pid]])
    wait_until(lambda: not children_of(pid))


def test_programs_that_a_model_started_end_with_it(server: RunningServer) -> None:
    with replaced(server, "programs", "exited") as old:
        (child,) = children_of(old)
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: not is_running(child))


def test_a_leak_is_met_between_batches_and_an_explosion_within_one(server: RunningServer) -> None:
    with replaced(server, "grows", "memory") as old:
        assert do(server, "grows", "grow", mib=150).status == 200
        wait_until(lambda: pid_of(server, "grows") != old, BACK_S)  # no caller sees an error meanwhile
    with replaced(server, "grows", "memory"):
        answer = do(server, "grows", "grow_and_stay", mib=400)
        assert answer.status == 500
        assert "beyond its memory_limit of 150 MiB" in answer.json["error"]


def test_batches_that_all_kill(server: RunningServer) -> None:
    """Pauses grow, callers are told to come again, and the server answers others meanwhile."""
    before = restarts(server, "ends", "exited")
    statuses: list[int] = []
    while 503 not in statuses:
        assert len(statuses) < 30, statuses
        answer = do(server, "ends", "kill")
        statuses.append(answer.status)
        assert answer.status in (500, 503)
    pause = re.search(r"; the next process starts in (\S+) s$", answer.json["error"])
    assert pause is not None
    assert answer.json["retry_after_ms"] == pytest.approx(max(1_000, 1_000 * float(pause[1])), rel=0.01)
    assert int(answer.headers["retry-after"]) == ceil(answer.json["retry_after_ms"] / 1_000)
    assert restarts(server, "ends", "exited") - before <= 10
    assert not is_ready(server, "ends")
    assert not is_ready(server)
    with bounded(1):
        assert server.request("GET", "/v2/health/live").status == 200

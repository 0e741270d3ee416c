"""The processes that a server runs its models in, seen from outside."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from guepard.testing.running_server import Answer, RunningServer
from tests.services.callers import one_input
from tests.services.raw_http import gauge
from tests.services.waiting import wait_until

# From the end of a process to another that answers: its start took 0.3 s where this was written.
BACK_S = 8.0


def children_of(pid: int) -> list[int]:
    """Processes that it started and that have not ended."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return [each for each in found if is_running(each)]


def group_of(leader: int) -> list[int]:
    """Processes in the group of a process, which may have ended itself."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getpgid(int(entry.name)) == leader and is_running(int(entry.name)):
                found.append(int(entry.name))
    return found


def is_running(pid: int) -> bool:
    """Not for one that has ended and waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def do(server: RunningServer, model: str, fault: str | None = None, x: int = 1, **parameters: Any) -> Answer:
    """Ask a model of `process_models` for a fault, or for its answer."""
    asked = {"do": fault} if fault else {}
    return server.infer(model, one_input("INT32", [x], parameters=asked | parameters))


def pid_of(server: RunningServer, model: str) -> int:
    """The process that answers now; a request to find out waits for one that is being started."""
    answer = do(server, model)
    assert answer.status == 200, answer
    return int(answer.json["outputs"][1]["data"][0])


def restarts(server: RunningServer, model: str, reason: str) -> int:
    labels = f'model="{model}",reason="{reason}",version="1"'
    return int(gauge(server, f"guepard_instance_restarts_total{{{labels}}}"))


@contextmanager
def replaced(server: RunningServer, model: str, reason: str) -> Iterator[int]:
    """Within the block the model's process, whose number it is given, is lost for `reason`, once.

    Afterwards another one answers and nothing is left of it.
    """
    old = pid_of(server, model)
    count = restarts(server, model, reason)
    yield old
    wait_until(lambda: restarts(server, model, reason) == count + 1, BACK_S)
    wait_until(lambda: is_ready(server, model), BACK_S)
    assert pid_of(server, model) != old
    wait_until(lambda: not is_running(old), BACK_S)
    assert restarts(server, model, reason) == count + 1


def is_ready(server: RunningServer, model: str | None = None) -> bool:
    path = "/v2/health/ready" if model is None else f"/v2/models/{model}/ready"
    return server.request("GET", path).status == 200

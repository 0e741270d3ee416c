"""`guepard.load` with processes, in programs: they find the program's class, and nothing stays."""

import os
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import guepard
from tests.services.processes import children_of
from tests.services.programs import run
from tests.services.waiting import wait_until

PROCESS = {"execution": "process", "count": 1}


class Pid(guepard.Model):
    inputs = (guepard.Tensor("x", "INT32", [1]),)
    outputs = (guepard.Tensor("y", "INT32", [1]), guepard.Tensor("pid", "INT64", [1]))
    max_batch_size = 8

    def predict(self, inputs: dict[str, NDArray[Any]], ctx: guepard.ModelContext) -> dict[str, NDArray[Any]]:
        return {"y": inputs["x"] * 2, "pid": np.full(inputs["x"].shape, os.getpid())}


class Explodes(Pid):
    def predict(self, inputs: dict[str, NDArray[Any]], ctx: guepard.ModelContext) -> dict[str, NDArray[Any]]:
        if inputs["x"].max() > 100:
            raise LookupError("too large")
        return super().predict(inputs, ctx)


def test_a_class_of_this_module_from_many_threads() -> None:
    with guepard.load(Pid, instance_group={"execution": "process", "count": 2}) as model:
        assert model.config["instance_group"][0]["execution"] == "process"

        def ask(number: int) -> int:
            answer = model.infer({"x": [[number]]})
            assert answer["y"].tolist() == [[2 * number]]
            return int(answer["pid"][0, 0])

        with ThreadPoolExecutor(16) as pool:
            pids = set(pool.map(ask, range(400)))
        assert pids <= set(children_of(os.getpid()))
    wait_until(lambda: not children_of(os.getpid()))


def test_what_the_model_raised_is_the_cause() -> None:
    with guepard.load(Explodes, instance_group=PROCESS) as model:
        with pytest.raises(guepard.ModelError, match="model 'explodes' failed: LookupError") as caught:
            model.infer({"x": [[101]]})
        cause = caught.value.__cause__
        assert str(cause) == "too large"
        written = "".join(traceback.format_exception(cause))
        assert written.startswith("Traceback (most recent call last):\n")
        assert written.endswith('raise LookupError("too large")\nLookupError: too large\n')
        with pytest.raises(guepard.InputError, match="cannot be handed to the model's process"):
            model.infer({"x": [[1]]}, parameters={"k": "\udcff"})
        assert model.infer({"x": [[1]]})["y"].tolist() == [[2]]


def test_a_class_of_a_function_is_refused() -> None:
    class Local(Pid):
        """Nobody else finds it."""

    with pytest.raises(guepard.LoadError, match="define it in a module, or use execution: thread"):
        guepard.load(Local, instance_group=PROCESS)
    with guepard.load(Local, instance_group={"count": 1}) as model:
        assert model.infer({"x": [[1]]})["pid"].tolist() == [[os.getpid()]]
    assert not children_of(os.getpid())


GUARDED = """
import os

if __name__ == "__main__":
    model = guepard.load(Double, instance_group={"execution": "process", "count": 1})
    print(model.infer({"x": [[1.5]]})["y"].tolist(), flush=True)
"""


@pytest.mark.parametrize("end", ["    del model", "    pass", "    os._exit(0)"])
def test_a_class_of_the_program_itself(tmp_path: Path, end: str) -> None:
    """However the program ends, its processes do, too."""
    report = "    import json, glob; pids = [int(p) for t in glob.glob('/proc/self/task/*/children')"
    report += " for p in open(t).read().split()]; print(json.dumps(pids), flush=True)\n"
    ending = run(tmp_path, GUARDED + report + end + "\n")
    lines = ending.output.splitlines()
    assert lines[0] == "[[3.0]]", ending.errors
    (pid,) = eval(lines[1])
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert ending.code == 0


@pytest.mark.parametrize("call", ["guepard.load(Double, ", "guepard.serve(Double, http_port=0, metrics_port=0, "])
def test_a_program_without_a_guard_is_told_so_and_spawns_nothing_more(tmp_path: Path, call: str) -> None:
    option = 'instance_group={"execution": "process", "count": 1})'
    if "serve" in call:
        (tmp_path / "c.yaml").write_text("defaults: {instance_group: {execution: process, count: 1}}\n")
        option = 'config="c.yaml")'
    started = time.monotonic()
    ending = run(tmp_path, f'print("imported", flush=True)\n{call}{option}\n')
    assert time.monotonic() - started < 20
    assert ending.output.count("imported") == 2  # by the program, and by the one process that looked for its class
    assert ending.code == 1
    assert 'start servers and load models under `if __name__ == "__main__":`' in ending.errors


class Large(guepard.Model):
    inputs = (guepard.Tensor("x", "FP32", [-1]),)
    outputs = (guepard.Tensor("y", "FP32", [-1]),)
    max_batch_size = 4

    def predict(self, inputs: dict[str, NDArray[Any]], ctx: guepard.ModelContext) -> dict[str, NDArray[Any]]:
        return {"y": inputs["x"]}


def test_memory_and_descriptors_go_with_the_process_without_waiting_for_a_collection(tmp_path: Path) -> None:
    text = f"""
import gc, os, sys
import numpy as np
sys.path.insert(0, {str(Path.cwd())!r})
from tests.integration.test_process_in_a_program import Large

def shared_bytes():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssShmem"))

gc.disable()
seen = []
for _ in range(3):
    with guepard.load(Large, instance_group={{"execution": "process", "count": 1}}) as model:
        model.infer({{"x": np.ones((1, 4_000_000), np.float32)}})
    seen.append((len(os.listdir("/proc/self/fd")), shared_bytes()))
assert seen[2][0] == seen[0][0], seen
assert seen[2][1] < 4_000_000, seen
"""
    ending = run(tmp_path, text)
    assert (ending.code, ending.errors) == (0, "")

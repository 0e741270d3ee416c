"""From the start of a model's processes to their end, whoever brings it about."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guepard.testing.running_server import RunningServer
from tests.services.callers import one_input
from tests.services.onnx_models import double, write_model
from tests.services.processes import children_of, do, is_ready, is_running, pid_of
from tests.services.raw_http import bounded
from tests.services.waiting import wait_until

FILE = Path(__file__).parent.parent / "services" / "process_models.py"
PYTHON_MODELS = FILE.with_name("python_models.py")


def configuration(folder: Path, *models: str, server: str = "") -> Path:
    """`models` are the fields of one model each; all run in processes unless they say otherwise."""
    lines = [f"server: {{{server}}}", "defaults: {trust: true, backend: python}", "models:"]
    for model in models:
        more = "" if "instance_group" in model else ", instance_group: {execution: process, count: 1}"
        lines.append(f"  - {{{model}{more}}}")
    file = folder / "guepard.yaml"
    file.write_text("\n".join(lines))
    return file


def wait_for_nobody(pids: list[int]) -> None:
    wait_until(lambda: not any(map(is_running, pids)))


def test_no_process_and_no_model_file_and_back(tmp_path: Path) -> None:
    """All processes are dead and none can be started: said at once and everywhere. Then the file comes back."""
    model = tmp_path / "model.py"
    model.write_text(FILE.read_text())
    with RunningServer("--config", configuration(tmp_path, f"name: m, path: '{model}:Faulty'")) as server:
        before = pid_of(server, "m")
        model.rename(tmp_path / "elsewhere.py")
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: not is_ready(server), 5)
        assert "there is no file model.py" in server.wait_for_record("instance 0 has no process")["message"]
        with bounded(2):
            answer = do(server, "m")
        assert (answer.status, answer.json["code"]) == (503, "not_ready")
        assert "there is no file model.py" in answer.json["error"]
        assert "retry-after" in answer.headers
        answer = server.request("GET", "/v2/models/m/ready")
        assert (answer.status, "no file model.py" in answer.json["error"]) == (503, True)
        assert 'guepard_model_ready{model="m",version="1"} 0.0' in server.metrics()
        assert server.request("GET", "/v2/health/live").status == 200
        (tmp_path / "elsewhere.py").rename(model)
        wait_until(lambda: is_ready(server, "m"))
        assert is_ready(server)
        assert pid_of(server, "m") != before


def test_models_that_do_not_come_through_their_load(tmp_path: Path) -> None:
    """Each is refused with the reason; the others are served."""
    file = configuration(
        tmp_path,
        f"name: good, path: '{FILE}:Faulty'",
        f"name: exits, path: '{FILE}:ExitsInLoad', required: false",
        f"name: segfaults, path: '{FILE}:SegfaultsInLoad', required: false",
        f"name: large, path: '{FILE}:TooLarge', required: false, "
        "instance_group: {execution: process, count: 1, memory_limit: 150MiB}",
        f"name: raises, path: '{PYTHON_MODELS}:FailsToLoad', required: false",
    )
    with RunningServer("--config", file) as server:
        assert do(server, "good").status == 200
        for name, reason in {
            "exits": "its process exited with code 3 while it loaded the model",
            "segfaults": "its process was killed by SIGSEGV while it loaded the model",
            "large": "and its memory_limit is 150 MiB; raise it in instance_group",
            "raises": "load() of model 'raises' raised FileNotFoundError; the server's log says more",
        }.items():
            server.wait_for_record(f"model {name} could not be loaded")
            answer = do(server, name)
            assert (answer.status, reason in answer.json["error"]) == (503, True), answer
        assert "there are no weights beside" in server.log_text()
        assert len(children_of(server.process.pid)) == 1


def test_a_load_that_never_ends_keeps_no_server_from_stopping(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    model = f"name: m, path: '{FILE}:WaitsInLoad', parameters: {{mark: '{mark}'}}"
    file = configuration(tmp_path, model, server="drain_timeout: 1s")
    with RunningServer("--config", file) as server, ThreadPoolExecutor(1) as threads:
        mark.touch()
        asked = threads.submit(server.request, "POST", "/v2/repository/models/m/load", b"")
        server.wait_for_record("loading for ever")
        assert do(server, "m").status == 200
        left = children_of(server.process.pid)
        assert len(left) == 2
        with bounded(15):
            assert server.stop() == 0
        wait_for_nobody(left)
        asked.exception()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_to_everybody_costs_no_accepted_request_its_answer(tmp_path: Path, number: int) -> None:
    """A supervisor signals the whole group or cgroup, a terminal the group in the foreground."""
    file = configuration(tmp_path, f"name: m, path: '{FILE}:Faulty', instance_group: {{execution: process, count: 2}}")
    with RunningServer("--config", file) as server, ThreadPoolExecutor(2) as threads:
        processes = children_of(server.process.pid)
        assert len(processes) == 2
        waiting = [threads.submit(do, server, "m", "sleep", 3, seconds=0.5) for _ in range(2)]
        wait_until(lambda: 'guepard_executing_requests{model="m",version="1"} 2.0' in server.metrics())
        for pid in processes:
            os.kill(pid, number)
        assert server.stop(number) == 0
        assert [each.result().status for each in waiting] == [200, 200]
        wait_for_nobody(processes)


def test_processes_end_with_a_server_that_is_killed(tmp_path: Path) -> None:
    """Idle ones, one that is busy in code that never lets go of the interpreter, and one that never ends its load."""
    file = configuration(
        tmp_path,
        f"name: idle, path: '{FILE}:Faulty'",
        f"name: busy, path: '{FILE}:Faulty'",
        f"name: never, path: '{FILE}:WaitsInLoad', parameters: {{mark: '{tmp_path}/mark'}}",
    )
    with RunningServer("--config", file) as server, ThreadPoolExecutor(2) as threads:
        (tmp_path / "mark").touch()
        loading = threads.submit(server.request, "POST", "/v2/repository/models/never/load", b"")
        server.wait_for_record("loading for ever")
        busy = pid_of(server, "busy")
        asked = threads.submit(do, server, "busy", "hold")
        wait_until(lambda: 'guepard_executing_requests{model="busy",version="1"} 1.0' in server.metrics())
        processes = children_of(server.process.pid)
        assert len(processes) == 4
        assert busy in processes
        server.process.kill()
        server.process.wait()
        wait_for_nobody(processes)
        assert asked.exception() is not None
        assert loading.exception() is not None


def test_reloads_and_unloads_leave_no_process_behind(tmp_path: Path) -> None:
    file = configuration(
        tmp_path,
        f"name: m, path: '{FILE}:Faulty'",
        f"name: programs, path: '{FILE}:RunsPrograms'",
    )
    with RunningServer("--config", file) as server:
        pid = server.process.pid
        before = pid_of(server, "m")
        (program,) = children_of(pid_of(server, "programs"))
        assert server.request("POST", "/v2/repository/models/m/load", b"").status == 200
        assert pid_of(server, "m") != before
        wait_for_nobody([before])
        assert len(children_of(pid)) == 2
        for name in ("m", "programs"):
            assert server.request("POST", f"/v2/repository/models/{name}/unload", b"").status == 200
        wait_until(lambda: not children_of(pid))
        wait_for_nobody([program])


@pytest.mark.slow  # it is given ten seconds to end by itself
def test_a_model_that_hangs_is_unloaded_by_force(tmp_path: Path) -> None:
    file = configuration(
        tmp_path,
        f"name: m, path: '{FILE}:Faulty', instance_group: {{execution: process, count: 2, instance_timeout: 60s}}",
    )
    with RunningServer("--config", file) as server, ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(do, server, "m", "hold", timeout=300_000) for _ in range(2)]
        assert [each.result().status for each in asked] == [504, 504]
        assert server.request("POST", "/v2/repository/models/m/unload", b"", timeout_s=60).status == 200
        wait_until(lambda: not children_of(server.process.pid), 30)


def test_what_a_process_maps_and_how_many_threads_it_computes_with(tmp_path: Path) -> None:
    """Memory without a name, nothing of /dev/shm; threads as the share of its instance, unless the user says more."""
    write_model(tmp_path / "double.onnx", double(1))
    onnx = f"name: onnx, path: '{tmp_path}/double.onnx', backend: onnxruntime, instance_group: {{execution: process, "
    file = configuration(tmp_path, f"{onnx}count: 2}}", f"name: m, path: '{FILE}:Faulty'")
    with RunningServer("--config", file, env={"MKL_NUM_THREADS": "7"}) as server:
        body = one_input("FP32", [1.5, -2.0])
        assert server.infer("onnx", body).json["outputs"][0]["data"] == [3.0, -4.0]
        assert server.infer("m", one_input("INT32", [1] * 8)).status == 200
        for pid in children_of(server.process.pid):
            maps = Path(f"/proc/{pid}/maps").read_text()
            assert "/memfd:guepard-" in maps
            assert "/dev/shm" not in maps
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            assert b"MKL_NUM_THREADS=7" in environment
            assert any(re.fullmatch(rb"OMP_NUM_THREADS=[1-9]\d*", each) for each in environment)
            assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) >= 500
            if b"guepard-onnx-in" in maps.encode() and len(os.sched_getaffinity(0)) == 2:
                assert b"OMP_NUM_THREADS=1" in environment
                computing = [task for task in Path(f"/proc/{pid}/task").glob("*/comm") if "python" in task.read_text()]
                assert len(computing) <= 3  # the main thread, that of the log and questions, none of ONNX Runtime's


def test_without_memory_files(tmp_path: Path) -> None:
    """A system that refuses memfd_create: a temporary file without a name takes its place."""
    (tmp_path / "sitecustomize.py").write_text("import os\ndel os.memfd_create\n")
    file = configuration(tmp_path, f"name: m, path: '{PYTHON_MODELS}:ReturnsItsBuffer'")
    with RunningServer(
        "--config", file, env={"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    ) as server:
        values = [float(number) for number in range(5_000)]
        answer = server.infer("m", one_input("FP32", values, [1, len(values)]))
        assert answer.json["outputs"][0]["data"] == values
        (pid,) = children_of(server.process.pid)
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert "memfd" not in maps
        assert "(deleted)" in maps


def test_auto_moves_what_keeps_the_interpreter(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(AUTO)
    file = configuration(
        tmp_path,
        *[
            f"name: {name}, path: '{tmp_path}/models.py:{entry}', instance_group: {{count: 1}}"
            for name, entry in (("busy", "Busy"), ("sleeps", "Sleeps"), ("quick", "Quick"))
        ],
    )
    with RunningServer("--config", file) as server:
        chosen, reasons = {}, []
        for name in ("busy", "sleeps", "quick"):
            document = server.request("GET", f"/v2/models/{name}/config").json
            chosen[name] = document["instance_group"][0]["execution"]
            reason = document["guepard"]["execution_reason"]
            reasons.append(reason)
            assert re.fullmatch(r"Python code that kept the interpreter for \S+ (ms|µs) of \S+ (ms|µs) a batch", reason)
            assert (
                f"1 x {chosen[name]} ({reason})"
                in server.wait_for_record(f"model {name} version 1 is ready")["message"]
            )
        assert chosen == {"busy": "process", "sleeps": "thread", "quick": "thread"}, reasons
        assert len(children_of(server.process.pid)) == 1
        assert server.infer("busy", one_input("FP32", [2.0])).json["outputs"][0]["data"] == [2.0]


AUTO = """
import time

import guepard


class Quick(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [1])]
    outputs = [guepard.Tensor("y", "FP32", [1])]
    max_batch_size = 8

    def predict(self, inputs, ctx):
        return {"y": inputs["x"]}


class Busy(Quick):
    def predict(self, inputs, ctx):
        end = time.thread_time() + 0.04
        while time.thread_time() < end:
            sum(range(100))
        return super().predict(inputs, ctx)


class Sleeps(Quick):
    def predict(self, inputs, ctx):
        time.sleep(0.02)
        return super().predict(inputs, ctx)
"""

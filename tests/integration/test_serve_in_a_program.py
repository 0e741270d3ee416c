"""`guepard.serve` inside programs of every kind: it serves, it ends with them, and it leaves them as they were."""

import asyncio
import gc
import gzip
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from numpy.typing import NDArray

import guepard
from tests.services.onnx_models import double, write_model
from tests.services.programs import Program, run
from tests.services.shared_objects import PREFIX, SharedObject
from tests.services.waiting import wait_until

Arrays = dict[str, NDArray[Any]]
FREE: dict[str, Any] = {"http_port": 0, "metrics_port": 0}


class Triple(guepard.Model):
    inputs = (guepard.Tensor("x", "FP32", [1]),)
    outputs = (guepard.Tensor("y", "FP32", [1]),)
    max_batch_size = 8

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        return {"y": inputs["x"] * np.float32(3)}


INSTANCE: Any = Triple()


class Gate(Triple):
    """Waits in `predict`, for requests above 0, until the test lets it go on."""

    entered = threading.Semaphore(0)
    open = threading.Event()

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        if inputs["x"].max() > 0:
            self.entered.release()
            assert self.open.wait(30)
        return super().predict(inputs, ctx)


class Broken(Triple):
    def load(self, ctx: guepard.ModelContext) -> None:
        raise OSError("no weights")


class WhereAmI(Triple):
    folder: Path

    def load(self, ctx: guepard.ModelContext) -> None:
        type(self).folder = ctx.path


def question(value: float, width: int = 1) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, width], "data": [value] * width}]}


def ask(url: str, model: str, value: float, width: int = 1) -> list[float]:
    request = urllib.request.Request(f"{url}/v2/models/{model}/infer", json.dumps(question(value, width)).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        data: list[float] = json.load(answer)["outputs"][0]["data"]
        return data


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def nothing_stays() -> Iterator[None]:
    """Descriptors and threads are no more than before. What earlier tests left behind may go meanwhile."""
    gc.collect()
    before, threads = descriptors(), set(threading.enumerate())
    yield
    gc.collect()
    assert descriptors() <= before
    assert set(threading.enumerate()) <= threads


@pytest.fixture(scope="module", autouse=True)
def _first_server() -> None:
    """Libraries keep a few descriptors from their first use on."""
    with guepard.serve(Triple, **FREE) as server:
        ask(server.url, "triple", 1.0)


def refused(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) != 0


# In a program


def test_a_class_is_served_under_its_name_and_finds_what_lies_beside_it() -> None:
    with guepard.serve(WhereAmI, **FREE) as server:
        assert server.ready
        assert server.url == f"http://127.0.0.1:{server.http_port}"
        assert ask(server.url, "where_am_i", 2.0) == [6.0]
        assert WhereAmI.folder == Path(__file__).parent
        with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=30) as metrics:
            assert b'guepard_model_ready{model="where_am_i"' in metrics.read()


def test_models_are_named_in_every_way(tmp_path: Path) -> None:
    file = write_model(tmp_path / "double.onnx", double())
    repository = tmp_path / "repository"
    write_model(repository / "nested" / "1", double())
    code = tmp_path / "thing.py"
    code.write_text(Path(__file__).with_name("test_serve_in_a_program.py").read_text().partition("class Gate")[0])
    with guepard.serve([file, f"second={file}", repository, f"{code}:Triple"], **FREE) as server:
        for name in ("double", "second", "nested"):
            assert ask(server.url, name, 1.0, 4) == [2.0] * 4
        assert ask(server.url, "triple", 1.0) == [3.0]
    with guepard.serve({"a": Triple, "b": str(file)}, **FREE) as server:
        assert ask(server.url, "a", 1.0) == [3.0]
        assert ask(server.url, "b", 1.0, 4) == [2.0] * 4


def test_a_program_is_left_as_it_was() -> None:
    def state() -> dict[str, object]:
        root, ours = logging.getLogger(), logging.getLogger("guepard")
        return {
            "handlers": list(root.handlers),
            "levels": (root.level, ours.level, list(ours.handlers), ours.propagate),
            "signals": [signal.getsignal(number) for number in signal.valid_signals()],
            "wakeup": signal.set_wakeup_fd(signal.set_wakeup_fd(-1)),
            "frozen": gc.get_freeze_count(),
            "collector": (gc.isenabled(), gc.get_threshold()),
            "streams": (sys.stdout, sys.stderr),
            "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
            "loop policy": type(asyncio.get_event_loop_policy()),
        }

    before = state()
    with guepard.serve(Triple, **FREE) as server:
        assert ask(server.url, "triple", 1.0) == [3.0]
        assert state() == before
    assert state() == before


def test_its_records_reach_the_program_s_loggers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "guepard"), guepard.serve(Triple, **FREE) as server:
        ask(server.url, "triple", 1.0)
    paths = [vars(record)["path"] for record in caplog.records if record.name == "guepard.access"]
    assert paths == ["/v2/models/triple/infer"]
    assert "stopped" in caplog.text


def test_inside_a_running_loop_as_in_a_notebook() -> None:
    async def cell() -> list[list[float]]:
        with guepard.serve(Triple, **FREE) as server:
            async with aiohttp.ClientSession() as session:

                async def one(value: float) -> list[float]:
                    url = f"{server.url}/v2/models/triple/infer"
                    async with session.post(url, json=question(value)) as answer:
                        data: list[float] = (await answer.json())["outputs"][0]["data"]
                        return data

                return await asyncio.gather(*[one(float(value)) for value in range(20)])

    assert asyncio.run(cell()) == [[value * 3.0] for value in range(20)]


def test_from_a_thread_and_several_at_once() -> None:
    def serve_and_ask(value: int) -> list[float]:
        with guepard.serve({f"m{value}": Triple}, **FREE) as server:
            both.wait(30)
            return ask(server.url, f"m{value}", value)

    both = threading.Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(serve_and_ask, range(3))) == [[0.0], [3.0], [6.0]]


def test_nothing_is_left_after_many_servers() -> None:
    def cycle() -> None:
        with guepard.serve([Triple, Gate], **FREE) as server:
            ask(server.url, "triple", 1.0)

    with nothing_stays():
        for _ in range(20):
            cycle()


def test_a_server_that_was_stopped_holds_nothing_although_the_program_holds_it() -> None:
    """Neither the threads that unfold bodies nor the shared memory that clients registered."""
    with (
        nothing_stays(),
        SharedObject(8) as shared,
        guepard.serve(Triple, **FREE, allow_client_shm=[PREFIX]) as server,
    ):
        region = json.dumps({"key": shared.key, "byte_size": 8}).encode()
        large = gzip.compress(json.dumps(question(1.0)).encode() + b" " * 1_000_000)
        for path, body, header in (
            ("v2/systemsharedmemory/region/r/register", region, {"Content-Type": "application/json"}),
            ("v2/models/triple/infer", large, {"Content-Encoding": "gzip"}),
        ):
            with urllib.request.urlopen(urllib.request.Request(f"{server.url}/{path}", body, header), timeout=30):
                pass
        server.stop()


def test_grpc_where_it_is_asked_for(tmp_path: Path) -> None:
    """Two servers at once, in a process of its own: gRPC's library leaves threads and descriptors in it."""
    text = """
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import tritonclient.grpc as grpcclient

def serve_and_ask(value):
    with guepard.serve(Double, http_port=0, metrics_port=0, grpc_port=0) as server:
        both.wait(30)
        x = grpcclient.InferInput("x", [1, 1], "FP32").set_data_from_numpy(np.array([[value]], np.float32))
        with grpcclient.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            return client.infer("double", [x]).as_numpy("y").tolist()

both = threading.Barrier(2)
with ThreadPoolExecutor(2) as pool:
    print(*pool.map(serve_and_ask, (1, 2)))
with guepard.serve(Double, http_port=0, metrics_port=0) as server:
    print(server.grpc_port)
"""
    ending = run(tmp_path, text)
    assert (ending.code, ending.output) == (0, "[[2.0]] [[4.0]]\nNone\n"), ending.errors


# The end


def test_what_was_accepted_is_answered_before_the_end() -> None:
    Gate.open.clear()
    server = guepard.serve(Gate, **FREE)
    with ThreadPoolExecutor(3) as pool:
        answer = pool.submit(ask, server.url, "gate", 5.0)
        assert Gate.entered.acquire(timeout=30)
        stops = [pool.submit(server.stop) for _ in range(2)]
        wait_until(lambda: refused(server.http_port))
        assert not any(stop.done() for stop in stops)
        Gate.open.set()
        assert answer.result(30) == [15.0]
        for stop in stops:
            stop.result(30)
    server.stop()
    assert not server.ready
    assert refused(server.metrics_port)
    assert "stopped" in repr(server)


def test_wait_returns_when_another_thread_stops_it() -> None:
    server = guepard.serve(Triple, **FREE)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.wait)
        assert not waiting.done()
        server.stop()
        waiting.result(30)


SERVE = """
import urllib.request
server = guepard.serve(Double, http_port=0, metrics_port=0)
assert urllib.request.urlopen(server.url + "/v2/health/ready").status == 200
"""


@pytest.mark.parametrize(
    ("rest", "code", "said"),
    [
        ("", 0, ""),
        ("import atexit; atexit.register(server.stop)", 0, ""),
        ("other = guepard.serve(Double, http_port=0, metrics_port=0, grpc_port=0)", 0, ""),
        ("import sys\nwith server: sys.exit(3)", 3, ""),
        ("raise LookupError('of the program')", 1, "LookupError: of the program"),
    ],
    ids=["without stop", "stop at exit", "gRPC", "sys.exit", "an error"],
)
def test_a_program_ends_as_if_there_were_no_server(tmp_path: Path, rest: str, code: int, said: str) -> None:
    ending = run(tmp_path, SERVE + rest)
    assert (ending.code, ending.output) == (code, "")
    assert ending.errors.strip().splitlines()[-1:] == ([said] if said else [])
    assert "Warning" not in ending.errors


def test_ctrl_c_ends_a_program_that_waits(tmp_path: Path) -> None:
    text = """
import sys, threading, traceback

def announce(main=threading.get_ident()):
    while all(frame.name != "_wait" for frame in traceback.extract_stack(sys._current_frames()[main])):
        pass
    print("waiting")

threading.Thread(target=announce).start()
server.wait()
print("after", server.ready)
"""
    with Program(tmp_path, SERVE + text) as program:
        assert program.line() == "waiting"
        program.interrupt()
        ending = program.ending()
    assert (ending.code, ending.output, ending.errors) == (0, "after False\n", "")


def test_ctrl_c_ends_the_wait_for_a_model_that_never_loads(tmp_path: Path) -> None:
    text = """
import threading
class Never(Double):
    def load(self, ctx):
        print("loading")
        threading.Event().wait()
try:
    guepard.serve([Double, Never], http_port=0, metrics_port=0)
except KeyboardInterrupt:
    of_the_other = ("load-double", "interpreter-hold")  # which may be loading still
    print([thread.name for thread in threading.enumerate() if thread.name not in of_the_other])
"""
    with Program(tmp_path, text) as program:
        assert program.line() == "loading"
        program.interrupt()
        ending = program.ending()
    assert (ending.code, ending.output, ending.errors) == (0, "['MainThread', 'load-never']\n", "")


def test_a_forked_child_neither_hangs_nor_stops_the_server(tmp_path: Path) -> None:
    text = SERVE + (
        """
import os, sys
model = guepard.load(Double)
child = os.fork()
if child == 0:
    assert not server.ready
    try:
        model.infer({"x": [[1]]})
    except guepard.NotReady:
        sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert model.infer({"x": [[1]]})["y"] == 2
assert urllib.request.urlopen(server.url + "/v2/health/ready").status == 200
"""
    )
    ending = run(tmp_path, text)
    assert (ending.code, ending.errors) == (0, "")


# What goes wrong


def test_a_taken_port_is_said_at_once_and_nothing_is_left() -> None:
    with nothing_stays(), socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for option, other in (("http_port", "metrics_port"), ("metrics_port", "http_port")):
            with pytest.raises(guepard.ConfigurationError, match=rf"server\.{option}: cannot listen on .* port {port}"):
                guepard.serve(Triple, **{option: port, other: 0})


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("file", "is not a folder"), ("open", "everybody may write to"), ("nowhere", "No such file or directory")],
)
def test_a_cache_that_was_asked_for_and_cannot_be_used_is_refused_at_once(
    tmp_path: Path, kind: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    folder = "/proc/nowhere" if kind == "nowhere" else str(tmp_path / kind)
    with nothing_stays(), pytest.raises(guepard.ConfigurationError, match=rf"server\.cache_dir: .*{reason}.*or none"):
        guepard.serve(Triple, http_port=0, metrics_port=0, cache_dir=folder)


def test_more_cpus_than_there_are_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with nothing_stays(), guepard.serve(Triple, http_port=0, metrics_port=0, cpus=1_024):
        pass
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("server.cpus is 1024, and this process may use ")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: guepard.serve(Triple, htp_port=0), "htp_port: no such option; did you mean http_port?"),
        (lambda: guepard.serve(Triple, http_port="x"), 'http_port: expected an integer from 0 to 65535, got "x"'),
        (lambda: guepard.serve(Triple, max_request_bytes="1 sheep"), "max_request_bytes"),
        (lambda: guepard.serve(Triple, {"servr": {}}), "config: servr: no such option; did you mean server?"),
        (lambda: guepard.serve(Triple, "no/such.yaml"), "such.yaml"),
        (lambda: guepard.serve(), "no model to serve"),
        (lambda: guepard.serve([Triple, Triple]), r"models\[1\]: the name triple is taken by models\[0\]"),
        (lambda: guepard.serve(INSTANCE), "models: an instance of Triple; name the class itself"),
        (lambda: guepard.serve([3]), r"models\[0\]: expected a path, .* got int"),  # type: ignore[list-item]
        (lambda: guepard.serve([dict]), r"models\[0\]: expected a path, .* got dict"),  # type: ignore[list-item]
        (lambda: guepard.serve({"a b": Triple}), 'models: "a b" is not a model name'),
        (lambda: guepard.serve("no_such.onnx"), "no_such.onnx: no such file or folder"),
    ],
)
def test_a_wrong_call_is_refused_with_the_field(call: Callable[[], object], message: str) -> None:
    with pytest.raises(guepard.ConfigurationError, match=message):
        call()


def test_a_model_that_cannot_be_loaded_is_an_error_of_the_caller_s() -> None:
    with (
        nothing_stays(),
        pytest.raises(guepard.LoadError, match=r"'broken' could not be loaded: .* raised OSError"),
    ):
        guepard.serve([Triple, Broken], **FREE)


def test_the_others_are_served_when_the_program_says_so() -> None:
    with guepard.serve([Triple, Broken], exit_on_error=False, **FREE) as server:
        assert not server.ready
        assert ask(server.url, "triple", 1.0) == [3.0]
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(server.url, "broken", 1.0)
        with caught.value as answer:
            assert answer.code == 503
    with guepard.serve([Triple, Broken], {"defaults": {"required": False}}, **FREE) as server:
        assert server.ready


# Where options come from


def test_arguments_win_over_the_environment_and_that_over_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "double.onnx", double())
    sizes = {"max_request_bytes": "100B"}
    config = {"server": sizes | FREE, "models": [{"name": "listed", "path": "double.onnx"}]}
    (tmp_path / "guepard.yaml").write_text(json.dumps(config))

    def largest(**options: object) -> str:
        with guepard.serve(Triple, "guepard.yaml", **options) as server:
            request = urllib.request.Request(f"{server.url}/v2/models/listed/infer", b"x" * 400)
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request, timeout=30)
            with caught.value as answer:
                return str(json.load(answer)["error"])

    assert "100" in largest()
    monkeypatch.setenv("GUEPARD_MAX_REQUEST_BYTES", "200B")
    assert "200" in largest()
    assert "300" in largest(max_request_bytes="300B")


def test_no_file_is_read_unasked_and_kubernetes_does_not_delay_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    (tmp_path / "guepard.yaml").write_text("nonsense: true\n")
    server = guepard.serve(Triple, **FREE)
    start = time.monotonic()
    server.stop()
    assert time.monotonic() - start < 4

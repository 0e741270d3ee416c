"""`guepard.load`: a model inside a program behaves as behind a server, from any thread and any event loop."""

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import guepard
from guepard.embedding import local_model
from guepard.engine.memory_watch import MemoryWatch
from guepard.engine.served_model import ServedModel
from tests.services.heavy_models import matmul_stack
from tests.services.onnx_models import add, double, identity, two_outputs, write_model
from tests.services.programs import Program, run
from tests.services.waiting import wait_until

Arrays = dict[str, NDArray[Any]]


class Rows(guepard.Model):
    """Doubles its rows, notes how many came together, and refuses or fails where it is asked to."""

    inputs = (guepard.Tensor("x", "INT32", [1]),)
    outputs = (guepard.Tensor("y", "INT32", [1]),)
    max_batch_size = 16
    idempotent = True
    batches: list[int]

    def load(self, ctx: guepard.ModelContext) -> None:
        type(self).batches = []

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        x = inputs["x"]
        self.batches.append(len(x))
        for row, value in enumerate(x[:, 0]):
            if value == -1:
                raise guepard.InputError("x must not be -1", row=row)
            if value == -2:
                raise ValueError("x is -2")
        time.sleep(0.002)
        return {"y": x * 2}


class Gate(guepard.Model):
    """Waits in `predict`, for requests above 1000, until the test lets it go on. Then it writes on its input."""

    inputs = Rows.inputs
    outputs = Rows.outputs
    max_batch_size = 1
    entered: threading.Semaphore
    open: threading.Event
    seen: list[int]

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
        if inputs["x"].max() > 1000:
            self.seen.append(int(inputs["x"][0, 0]))
            self.entered.release()
            assert self.open.wait(30)
        inputs["x"] += 1
        return {"y": inputs["x"]}


class Told(guepard.Model):
    """Answers with what it is told about the request."""

    inputs = (guepard.Tensor("x", "BYTES", []),)
    outputs = (guepard.Tensor("y", "BYTES", []),)
    max_batch_size = 4

    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> dict[str, Any]:
        told = f"{ctx.requests[0].id} {dict(ctx.requests[0].parameters)} {ctx.parameters}"
        return {"y": [told] * len(inputs["x"])}


class Stream(Rows):
    def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Iterator[Arrays]:  # type: ignore[override]
        for _ in range(int(inputs["x"][0, 0])):
            yield {"y": inputs["x"]}


@pytest.fixture
def rows() -> Iterator[guepard.LocalModel]:
    with guepard.load(Rows) as model:
        yield model


@pytest.fixture
def gate() -> Iterator[guepard.LocalModel]:
    Gate.entered, Gate.open, Gate.seen = threading.Semaphore(0), threading.Event(), []
    with guepard.load(Gate, dynamic_batching={"max_queue_size": 2}) as model:
        yield model
        Gate.open.set()


def entered() -> None:
    assert Gate.entered.acquire(timeout=30)


def test_weights_are_kept_where_the_caller_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "theirs"))
    monkeypatch.chdir(tmp_path)
    file = write_model(tmp_path / "model.onnx", matmul_stack())
    group = {"execution": "process", "count": 2}

    def copies(**options: Any) -> list[str]:
        """Where there are copies of the model's weights, once it has been loaded."""
        with guepard.load(file, instance_group=group, **options) as model:
            assert model.infer({"x": np.ones((1, 1024), np.float32)})["y"].shape == (1, 1024)
        return [str(path.relative_to(tmp_path).parts[0]) for path in tmp_path.glob("**/weights.bin")]

    assert copies(cache_dir="none") == []
    assert copies(cache_dir=Path("mine")) == ["mine"]
    assert sorted(copies()) == ["mine", "theirs"]
    with pytest.raises(guepard.ConfigurationError, match="cache_dir: expected text, got 3"):
        copies(cache_dir=3)


def test_an_idle_model_gives_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Trimmed(Rows):
        told = threading.Event()

    sizes = iter(range(0, 2**62, 2**40))  # the process grows by much all the time
    watch = partial(MemoryWatch, period_s=0.001, resident=lambda: next(sizes))
    monkeypatch.setattr(local_model, "MemoryWatch", watch)
    monkeypatch.setattr(ServedModel, "trim", lambda served: Trimmed.told.set())
    with guepard.load(Trimmed, instance_group={"execution": "thread"}) as model:
        for _ in range(2):
            model.infer({"x": [[1]]})
            Trimmed.told.clear()
            assert Trimmed.told.wait(30)


def test_an_onnx_file_in_four_lines(tmp_path: Path) -> None:
    file = write_model(tmp_path / "two.onnx", two_outputs())
    with guepard.load(file) as model:
        answer = model.infer({"x": [[1, 2, 3, 4], [5, 6, 7, 8]]})
        assert answer["total"].tolist() == [10, 26]
        assert answer["negated"].tolist() == [[-1, -2, -3, -4], [-5, -6, -7, -8]]
        assert list(model.infer({"x": np.ones((1, 4), np.int64)}, outputs=["total"])) == ["total"]
        assert [(spec.name, spec.datatype.name, spec.dims) for spec in model.inputs] == [("x", "INT64", (4,))]
        assert [spec.name for spec in model.outputs] == ["total", "negated"]
        assert model.metadata["inputs"] == [{"name": "x", "datatype": "INT64", "shape": [-1, 4]}]
        assert (model.name, model.config["max_batch_size"]) == ("two", 64)


def test_models_are_named_as_for_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "double.onnx", double())
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "model.py").write_text(
        "import guepard\nclass Echo(guepard.Model):\n"
        '    inputs = outputs = [guepard.Tensor("x", "FP32", [1])]\n'
        "    def predict(self, inputs, ctx):\n        return inputs\n"
    )
    with guepard.load("other=double.onnx", max_batch_size=2, timeout={"default": "1s"}) as model:
        assert (model.name, model.config["max_batch_size"]) == ("other", 2)
        assert model.config["guepard"]["timeout_ms"]["default"] == 1_000
    for named in ({"model": "code/model.py:Echo"}, {"model": "code", "trust": True}):
        with guepard.load(**named) as model:
            assert model.infer({"x": [1.5]})["x"].tolist() == [1.5]
    with pytest.raises(guepard.LoadError, match="trust"):
        guepard.load("code")


def test_files_and_variables_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guepard.yaml").write_text("nonsense: true\n")
    for name, value in (("CONFIG", "none.yaml"), ("MODEL_REPOSITORY", "none"), ("HTTP_PORT", "x")):
        monkeypatch.setenv(f"GUEPARD_{name}", value)
    with guepard.load(Rows) as model:
        assert model.infer({"x": [[1]]})["y"].tolist() == [[2]]


def test_threads_meet_in_batches_and_each_gets_its_own_rows(rows: guepard.LocalModel) -> None:
    Rows.batches.clear()

    def ask(start: int) -> list[int]:
        given = [[start], [start + 1]] if start % 2 else [[start]]
        return [int(row[0]) - 2 * start for row in rows.infer({"x": given})["y"]]

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(ask, range(400)))
    assert answers == [[0, 2] if start % 2 else [0] for start in range(400)]
    assert sum(Rows.batches) == 600
    assert max(Rows.batches) > 2


def test_a_request_larger_than_a_batch_comes_back_whole(rows: guepard.LocalModel) -> None:
    x = np.arange(100, dtype=np.int32).reshape(100, 1)
    assert (rows.infer({"x": x})["y"] == 2 * x).all()


def test_a_bad_request_fails_alone(rows: guepard.LocalModel) -> None:
    def ask(value: int) -> object:
        try:
            return int(rows.infer({"x": [[value]]})["y"][0, 0])
        except guepard.GuepardError as error:
            return type(error), str(error), repr(error.__cause__)

    values = [-1, -2, *range(30)]
    with ThreadPoolExecutor(len(values)) as pool:
        refused, failed, *answers = pool.map(ask, values)
    assert refused == (guepard.InputError, "x must not be -1", "None")
    assert failed == (guepard.ModelError, "model 'rows' failed: ValueError", "ValueError('x is -2')")
    assert answers == [2 * value for value in range(30)]


def test_callers_of_a_failed_batch_get_errors_of_their_own(tmp_path: Path) -> None:
    class Fails(Rows):
        idempotent = False

        def predict(self, inputs: Arrays, ctx: guepard.ModelContext) -> Arrays:
            if ctx.requests[0].parameters:
                time.sleep(0.05)
            raise ValueError("always")

    def ask(number: int) -> BaseException:
        with pytest.raises(guepard.ModelError) as caught:
            model.infer({"x": [[number]]}, parameters={"slow": True})
        return caught.value

    with guepard.load(Fails) as model, ThreadPoolExecutor(8) as pool:
        errors = list(pool.map(ask, range(8)))
    assert len({id(error) for error in errors}) == 8
    assert all(isinstance(error.__cause__, ValueError) for error in errors)


def test_what_is_told_to_the_model() -> None:
    with guepard.load(Told, parameters={"factor": 3}) as model:
        answer = model.infer({"x": ["text"]}, id="seven", parameters={"top": 5, "priority": 1}, priority=2)
        assert answer["y"].tolist() == [b"seven {'top': 5} {'factor': 3}"]


def test_arrays_are_nobody_else_s(tmp_path: Path, gate: guepard.LocalModel) -> None:
    x = np.zeros((1, 1), np.int32)
    assert gate.infer({"x": x})["y"].tolist() == [[1]]
    assert x.tolist() == [[0]], "the model wrote on an array of the program's"
    assert x.flags.writeable
    with guepard.load(write_model(tmp_path / "same.onnx", identity())) as model:
        given = np.ones((3, 4), np.float32)
        answer = model.infer({"x": given})["y"]
        answer[:] = 2
        assert (given == 1).all()
        assert answer.base is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": [[1]]}, "inputs: expected arrays by name"),
        ({"inputs": {}}, "input 'x' is missing"),
        ({"inputs": {"x": [[1]], "z": 1}}, "input 'z' is no input of model 'rows'; it has 'x'"),
        ({"inputs": {"x": [1]}}, r"input 'x': expected shape \[-1, 1\], where -1 is the batch, got \[1\]"),
        ({"inputs": {"x": 1}}, r"expected shape \[-1, 1\], where -1 is the batch, got \[\]"),
        ({"inputs": {"x": [[1.5]]}}, r"input 'x'\[0\]\[0\]: expected integers \(INT32\), got float '1.5'"),
        ({"inputs": {"x": [[1]]}, "outputs": "y"}, "outputs: expected a list of names"),
        ({"inputs": {"x": [[1]]}, "outputs": ["q"]}, "outputs: 'q' is no output of model 'rows'; it has 'y'"),
        ({"inputs": {"x": [[1]]}, "timeout": 0}, "timeout: expected seconds above 0, got 0"),
        ({"inputs": {"x": [[1]]}, "timeout": float("nan")}, "timeout: expected seconds above 0, got nan"),
        ({"inputs": {"x": [[1]]}, "timeout": "1s"}, "timeout: expected seconds above 0, got '1s'"),
        ({"inputs": {"x": [[1]]}, "priority": 4}, "priority: expected 0 .* got 4"),
        ({"inputs": {"x": [[1]]}, "priority": -1}, "priority: expected 0 .* got -1"),
        ({"inputs": {"x": [[1]]}, "parameters": {"a": [1]}}, "parameters.a: expected a string, number or boolean"),
        ({"inputs": {"x": [[1]]}, "parameters": [1]}, "parameters: expected values by name"),
        ({"inputs": {"x": [[1]]}, "parameters": {1: 2}}, "parameters: expected values by name"),
        ({"inputs": {"x": [[1]]}, "outputs": 5}, "outputs: expected a list of names"),
        ({"inputs": {"x": [[1]]}, "id": 7}, "id: expected text, got 7"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(guepard.InputError, match=message):
        MODEL.infer(**arguments)
    with pytest.raises(guepard.InputError, match=message):
        asyncio.run(MODEL.infer_async(**arguments))


MODEL: guepard.LocalModel


@pytest.fixture(scope="module", autouse=True)
def one_for_all() -> Iterator[None]:
    global MODEL
    with guepard.load(Rows) as MODEL:
        yield


def test_shapes_that_only_the_model_knows_to_be_wrong(tmp_path: Path) -> None:
    file = write_model(tmp_path / "add.onnx", add(dims=["n", "m"]))
    with guepard.load(file) as model, pytest.raises(guepard.GuepardError):
        model.infer({"a": np.ones((1, 2), np.float32), "b": np.ones((1, 3), np.float32)})


# Bounds


def test_a_deadline_ends_the_wait(gate: guepard.LocalModel) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gate.infer, {"x": [[1001]]})
        entered()
        start = time.monotonic()
        with pytest.raises(guepard.DeadlineExceeded, match="waiting"):
            gate.infer({"x": [[1002]]}, timeout=0.1)
        assert 0.1 <= time.monotonic() - start < 5
        with pytest.raises(guepard.DeadlineExceeded, match="waiting"):
            asyncio.run(gate.infer_async({"x": [[1003]]}, timeout=0.05))
        Gate.open.set()
        assert first.result(30)["y"].tolist() == [[1002]]
    assert gate.infer({"x": [[1004]]}, timeout=30)["y"].tolist() == [[1005]]
    assert Gate.seen == [1001, 1004]


def test_a_full_queue_refuses_at_once(gate: guepard.LocalModel) -> None:
    async def crowd() -> list[object]:
        first = asyncio.ensure_future(gate.infer_async({"x": [[1001]]}))
        await asyncio.to_thread(entered)
        crowd = [asyncio.ensure_future(gate.infer_async({"x": [[1002]]})) for _ in range(3)]
        done, _ = await asyncio.wait(crowd, return_when=asyncio.FIRST_COMPLETED)
        refused = [task.exception() for task in done]
        Gate.open.set()
        return [*refused, *[type(each) for each in await asyncio.gather(first, *crowd, return_exceptions=True)]]

    error, *ended = asyncio.run(crowd())
    assert isinstance(error, guepard.QueueFull)
    assert error.retry_after_ms
    assert ended == [dict, dict, dict, guepard.QueueFull]


def test_a_cancelled_task_takes_its_request_along(gate: guepard.LocalModel) -> None:
    async def leave() -> None:
        first = asyncio.ensure_future(gate.infer_async({"x": [[1001]]}))
        await asyncio.to_thread(entered)
        waiting = asyncio.ensure_future(gate.infer_async({"x": [[1002]]}))
        await asyncio.sleep(0)
        for task in (waiting, first):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await gate.infer_async({"x": [[1003]]})

    asyncio.run(leave())
    Gate.open.set()
    assert gate.infer({"x": [[1004]]})["y"].tolist() == [[1005]]
    assert Gate.seen == [1001, 1004]


def test_a_loop_that_is_gone_disturbs_nobody(gate: guepard.LocalModel) -> None:
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        loop.create_task(gate.infer_async({"x": [[1001]]})).add_done_callback(lambda _: None)
        await asyncio.to_thread(entered)

    loop.run_until_complete(begin())
    (task,) = asyncio.all_tasks(loop)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    Gate.open.set()
    assert gate.infer({"x": [[1004]]})["y"].tolist() == [[1005]]
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_several_answers_are_not_one() -> None:
    with guepard.load(Stream) as model:
        assert model.infer({"x": [[1]]})["y"].tolist() == [[1]]
        for count in (0, 2):
            with pytest.raises(guepard.Unsupported, match=f"the model gave {count} responses"):
                model.infer({"x": [[count]]})


# The end


def test_closing_answers_what_was_asked_and_refuses_the_rest(gate: guepard.LocalModel) -> None:
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(gate.infer, {"x": [[1001]]})
        entered()
        closing = [pool.submit(gate.close) for _ in range(2)]
        wait_until(lambda: "closed" in repr(gate))
        with pytest.raises(guepard.NotReady, match="closed"):
            gate.infer({"x": [[1002]]})
        assert not any(close.done() for close in closing)
        Gate.open.set()
        assert first.result(30)["y"].tolist() == [[1002]]
        for close in closing:
            close.result(30)
    with pytest.raises(guepard.NotReady, match="closed"):
        asyncio.run(gate.infer_async({"x": [[1002]]}))


def test_nothing_is_left_after_many_models(tmp_path: Path) -> None:
    file = write_model(tmp_path / "double.onnx", double())

    def cycle() -> None:
        with guepard.load(file) as model:
            model.infer({"x": np.ones((1, 4), np.float32)})
        forgotten = guepard.load(Rows)
        forgotten.infer({"x": [[1]]})
        gone = weakref.ref(forgotten)
        del forgotten
        assert gone() is None

    def left() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    threads = threading.active_count()
    cycle()  # what is imported with the first model keeps a descriptor or two
    wait_until(lambda: threading.active_count() == threads)
    before = left()
    for _ in range(20):
        cycle()
    wait_until(lambda: left() == before)


@pytest.mark.parametrize(
    "rest",
    ["", "model.close(); model.close()", "del model", "import atexit; atexit.register(model.close)"],
    ids=["nothing", "close", "del", "at exit"],
)
def test_a_program_ends_as_if_there_were_no_model(tmp_path: Path, rest: str) -> None:
    ending = run(tmp_path, f"model = guepard.load(Double)\nassert model.infer({{'x': [[1]]}})['y'] == 2\n{rest}")
    assert (ending.code, ending.output, ending.errors) == (0, "", "")


def test_ctrl_c_ends_a_wait_and_not_the_model(tmp_path: Path) -> None:
    text = """
import threading
go = threading.Event()
class Slow(Double):
    max_batch_size = 0
    def predict(self, inputs, ctx):
        if inputs["x"] > 0:
            print("running", flush=True)
            go.wait()
        return super().predict(inputs, ctx)
model = guepard.load(Slow)
try:
    model.infer({"x": [1]})
except KeyboardInterrupt:
    go.set()
print(model.infer({"x": [2]})["y"])
"""
    with Program(tmp_path, text) as program:
        assert program.line() == "running"
        program.interrupt()
        ending = program.ending()
    assert (ending.code, ending.output, ending.errors) == (0, "running\n[4.]\n", "")


# What is refused when it is loaded


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: guepard.load(Rows, max_batch=3), guepard.ConfigurationError, "max_batch: no such option; did you"),
        (lambda: guepard.load(Rows, max_batch_size=-1), guepard.ConfigurationError, "max_batch_size: expected"),
        (lambda: guepard.load([Rows]), guepard.ConfigurationError, "takes one model"),  # type: ignore[arg-type]
        (lambda: guepard.load({"a": Rows}), guepard.ConfigurationError, "takes one"),  # type: ignore[arg-type]
        (lambda: guepard.load("none.onnx"), guepard.ConfigurationError, "none.onnx: no such file"),
        (lambda: guepard.load(guepard.Model), guepard.LoadError, "must define predict"),
    ],
)
def test_a_wrong_load_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()

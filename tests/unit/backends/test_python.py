"""The Python backend: loading, running, failing."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import guepard
from guepard.backends.base import ModelSource
from guepard.backends.python import PythonBackend, PythonModel
from guepard.core.errors import GuepardError, InputError, LoadError, ModelError
from guepard.core.model_config import ModelPolicy
from guepard.core.request import InferenceRequest
from guepard.core.response import ResponseSender
from guepard.core.tensor import Array, TensorSpec

HEAD = """
import guepard

class Double(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [2])]
    outputs = [guepard.Tensor("y", "FP32", [2])]
    max_batch_size = 8
"""

DOUBLE = (
    HEAD
    + """
    def predict(self, inputs, ctx):
        return {"y": inputs["x"] * 2}
"""
)

ONES = np.ones((1, 2), np.float32)


def request(rows: int = 1, **fields: Any) -> InferenceRequest:
    made = InferenceRequest((), cast(ResponseSender, None), 0)  # a model answers by returning
    made.rows = rows
    made.deadline = 5
    for name, value in fields.items():
        setattr(made, name, value)
    return made


Load = Callable[..., PythonModel]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    models = []

    def load(text: str, entry: str | None = None, trusted: bool = True, **policy: Any) -> PythonModel:
        (tmp_path / "model.py").write_text(text)
        source = ModelSource("m", "3", tmp_path, ModelPolicy(**policy), entry=entry, trusted=trusted, threads=2)
        models.append(PythonBackend().load(source))
        return models[-1]

    yield load
    for model in models:
        model.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("guepard-")]


def run(model: PythonModel, *inputs: Array | None, requests: tuple[InferenceRequest, ...] = ()) -> list[Array]:
    return list(model.executor().execute(inputs, requests or (request(),)))


class TestLoading:
    def test_code_that_is_not_trusted_never_runs(self, load: Load, tmp_path: Path) -> None:
        with pytest.raises(LoadError, match="runs Python code; start with --trust or set trust: true"):
            load(f"open({str(tmp_path / 'ran')!r}, 'w')", trusted=False)
        assert not (tmp_path / "ran").exists()

    def test_description(self, load: Load) -> None:
        description = load(DOUBLE).description
        assert (description.platform, description.backend) == ("python", "python")
        assert description.inputs == (TensorSpec("x", "FP32", [2]),)
        assert description.outputs == (TensorSpec("y", "FP32", [2]),)
        assert (description.max_batch_size, description.batch_verified) == (8, True)
        assert not description.idempotent
        assert not description.releases_gil
        assert not description.decoupled

    def test_the_operator_s_word_goes_before_the_class_s(self, load: Load) -> None:
        description = load(DOUBLE, max_batch_size=3, idempotent=True).description
        assert (description.max_batch_size, description.idempotent) == (3, True)
        assert load(DOUBLE + "    idempotent = True\n").description.idempotent
        assert not load(DOUBLE + "    idempotent = True\n", idempotent=False).description.idempotent

    def test_a_single_file_and_a_named_class(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "two.py").write_text(DOUBLE + "\nclass Other(Double):\n    max_batch_size = 1\n")
        source = ModelSource("m", "1", tmp_path / "two.py", ModelPolicy(), entry="Other", trusted=True)
        model = PythonBackend().load(source)
        assert model.description.max_batch_size == 1
        model.close()

    def test_imported_classes_and_second_names_do_not_count(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "parent.py").write_text(DOUBLE)
        text = "from parent import Double\nclass Mine(Double):\n    max_batch_size = 2\nAlias = Mine\n"
        assert load(text).description.max_batch_size == 2

    @pytest.mark.parametrize(
        ("text", "entry", "reason"),
        [
            ("", None, r"model\.py defines no class derived from guepard\.Model"),
            (DOUBLE + "\nclass Other(Double): pass\n", None, r"several models \(Double, Other\).*model\.py:Double"),
            (DOUBLE, "Missing", r"model\.py has no class 'Missing' derived from guepard\.Model"),
            (DOUBLE, "guepard", r"has no class 'guepard'"),
            (HEAD, None, r"class Double must define predict\(self, inputs, ctx\)"),
            (DOUBLE + "    inputs = []\n", None, "class Double declares no inputs; write inputs = "),
            (DOUBLE + "    outputs = ()\n", None, "class Double declares no outputs"),
            (DOUBLE + "    inputs = inputs * 2\n", None, "inputs has two tensors named 'x'"),
            (DOUBLE + "    inputs = ['x']\n", None, r"inputs must be a list of guepard\.Tensor"),
            (DOUBLE + "    max_batch_size = -1\n", None, "max_batch_size must be an integer of 0 or more, it is -1"),
            (DOUBLE + "    max_batch_size = '8'\n", None, "max_batch_size must be an integer"),
            ("\n\nx = (\n", None, r"cannot be imported: syntax error in model\.py, line 3"),
            ("\nimport not_there_at_all\n", None, r"no module named 'not_there_at_all' \(line 2\)"),
            ("raise OSError('/secret/path')", None, r"it raised OSError \(line 1\); the server's log says more"),
            ("raise SystemExit(3)", None, "it raised SystemExit"),
        ],
    )
    def test_what_cannot_be_served_is_refused(
        self, load: Load, tmp_path: Path, text: str, entry: str, reason: str
    ) -> None:
        with pytest.raises(LoadError, match=reason) as refusal:
            load(text, entry)
        assert str(tmp_path) not in str(refusal.value)
        assert "secret" not in str(refusal.value)

    def test_what_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(LoadError, match=r"^there is no file model\.py$"):
            PythonBackend().load(ModelSource("m", "1", tmp_path, ModelPolicy(), trusted=True))

    def test_an_interrupt_while_importing_is_not_swallowed(self, load: Load) -> None:
        with pytest.raises(KeyboardInterrupt):
            load("raise KeyboardInterrupt")

    @pytest.mark.parametrize("method", ["def load(self, ctx)", "async def load(self, ctx)", "def __init__(self)"])
    def test_a_load_that_raises_fails_the_load(self, load: Load, caplog: pytest.LogCaptureFixture, method: str) -> None:
        model = load(DOUBLE + f"    {method}:\n        raise ValueError('secret')\n")
        with pytest.raises(LoadError, match=r"raised ValueError; the server's log says more") as failure:
            model.executor()
        assert "secret" not in str(failure.value)
        assert "secret" in caplog.text


class TestContext:
    def test_what_load_is_given(self, load: Load, tmp_path: Path) -> None:
        text = (
            DOUBLE
            + "    def load(self, ctx):\n        type(self).seen = ctx\n        self.at_load = list(ctx.requests)\n"
        )
        model = load(text, parameters={"depth": "3"})
        context = vars(type(model.executor()._instance))["seen"]
        assert (context.name, context.version, context.path, context.device) == ("m", "3", tmp_path, "cpu")
        assert (context.parameters, context.threads) == ({"depth": "3"}, 2)
        assert context.logger.name == "guepard.models.m"

    def test_requests_know_their_rows_and_parameters(self, load: Load) -> None:
        text = (
            HEAD
            + """
    outputs = [guepard.Tensor("y", "BYTES", [])]
    def load(self, ctx):
        assert not ctx.requests
    def predict(self, inputs, ctx):
        answers = []
        for info in ctx.requests:
            rows = len(inputs["x"][info.rows])
            answers += [f"{info.id}:{info.parameters.get('k')}:{info.deadline_ns}:{info.is_cancelled}"] * rows
        assert len(ctx.requests) == 2 and ctx.requests[-1] is ctx.requests[1] and len(ctx.requests[:1]) == 1
        return {"y": answers}
"""
        )
        requests = (request(1, id="a", parameters={"k": 7}), request(2, id="b"))
        (answer,) = run(load(text), np.ones((3, 2), np.float32), requests=requests)
        assert answer.tolist() == [b"a:7:5:False", b"b:None:5:False", b"b:None:5:False"]

    def test_an_optional_input_that_was_left_out_is_not_there(self, load: Load) -> None:
        text = (
            HEAD
            + """
    inputs = [guepard.Tensor("x", "FP32", [2]), guepard.Tensor("scale", "FP32", [1], optional=True)]
    def predict(self, inputs, ctx):
        return {"y": inputs["x"] * inputs.get("scale", 3)}
"""
        )
        model = load(text)
        assert run(model, ONES, None)[0].tolist() == [[3, 3]]
        assert run(model, ONES, np.array([[5]], np.float32))[0].tolist() == [[5, 5]]

    def test_without_any_input_the_requests_say_how_many_rows(self, load: Load) -> None:
        text = (
            HEAD
            + """
    inputs = [guepard.Tensor("x", "FP32", [2], optional=True)]
    def predict(self, inputs, ctx):
        return {"y": [[0, 1]] * sum(info.rows.stop - info.rows.start for info in ctx.requests)}
"""
        )
        assert run(load(text), None, requests=(request(1), request(2)))[0].shape == (3, 2)


def test_a_class_that_is_handed_over_needs_no_file_and_no_trust(tmp_path: Path) -> None:
    class Double(guepard.Model):
        inputs = (guepard.Tensor("x", "FP32", [2]),)
        outputs = (guepard.Tensor("y", "FP32", [2]),)
        max_batch_size = 4

        def load(self, ctx: guepard.ModelContext) -> None:
            assert ctx.path == tmp_path

        def predict(self, inputs: dict[str, Any], ctx: guepard.ModelContext) -> dict[str, Any]:
            return {"y": inputs["x"] * 2}

    model = PythonBackend().load(ModelSource("m", "1", tmp_path, ModelPolicy(), model_class=Double))
    assert run(model, ONES)[0].tolist() == [[2, 2]]
    model.close()


class TestExecution:
    def test_a_batch_goes_in_whole(self, load: Load) -> None:
        batch = np.arange(6, dtype=np.float32).reshape(3, 2)
        assert run(load(DOUBLE), batch)[0].tolist() == (batch * 2).tolist()

    def test_a_model_without_batches(self, load: Load) -> None:
        assert run(load(DOUBLE, max_batch_size=0), np.ones(2, np.float32))[0].tolist() == [2, 2]

    def test_each_executor_has_its_own_instance(self, load: Load) -> None:
        text = (
            HEAD
            + """
    def load(self, ctx):
        self.calls = 0
    def predict(self, inputs, ctx):
        self.calls += 1
        return {"y": inputs["x"] * self.calls}
"""
        )
        model = load(text)
        first, second = model.executor(), model.executor()
        assert [first.execute([ONES], ())[0][0, 0] for _ in range(3)] == [1, 2, 3]
        assert second.execute([ONES], ())[0][0, 0] == 1

    def test_async_methods_run_wherever_the_engine_is(self, load: Load) -> None:
        text = (
            HEAD
            + """
    async def load(self, ctx):
        import asyncio
        self.loop = asyncio.get_running_loop()
    async def predict(self, inputs, ctx):
        import asyncio
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is self.loop
        return {"y": inputs["x"] * 2}
    async def health(self):
        raise ValueError("unfit")
    async def unload(self):
        open(self.mark, "w").close()
"""
        )
        model = load(text)
        executor = model.executor()

        async def inside_the_server_s_loop() -> Any:
            return executor.execute([ONES], ())

        assert asyncio.run(inside_the_server_s_loop())[0].tolist() == [[2, 2]]
        with pytest.raises(ValueError, match="unfit"):
            model.health()

    def test_unload_is_called_once_and_may_fail(self, load: Load, caplog: pytest.LogCaptureFixture) -> None:
        model = load(
            DOUBLE + "    calls = []\n    def unload(self):\n        self.calls.append(1)\n        raise OSError\n"
        )
        executor = model.executor()
        calls = executor._instance.calls  # type: ignore[union-attr]
        with caplog.at_level(logging.ERROR):
            executor.close()
            executor.close()
            model.close()
        assert calls == [1]
        assert "raised while unloading" in caplog.text
        model.health()


class TestStreams:
    SYNC = (
        HEAD
        + """
    closed = []
    def predict(self, inputs, ctx):
        try:
            for step in range(3):
                yield {"y": inputs["x"] * step + len(ctx.requests)}
        finally:
            self.closed.append(True)
"""
    )
    ASYNC = SYNC.replace("def predict", "async def predict")

    @pytest.mark.parametrize("text", [SYNC, ASYNC])
    def test_a_generator_gives_several_answers(self, load: Load, text: str) -> None:
        model = load(text)
        assert model.description.decoupled
        answers = list(model.executor().execute_stream([ONES], (request(),)))
        assert [answer[0].tolist() for answer in answers] == [[[1, 1]], [[2, 2]], [[3, 3]]]

    @pytest.mark.parametrize("text", [SYNC, ASYNC])
    def test_a_stream_that_is_left_closes_the_generator(self, load: Load, text: str) -> None:
        executor = load(text).executor()
        stream = executor.execute_stream([ONES], (request(),))
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert executor._instance.closed == [True]  # type: ignore[union-attr]

    @pytest.mark.parametrize("text", [SYNC, ASYNC])
    @pytest.mark.parametrize(
        ("error", "expected"),
        [("ValueError", ModelError), ("guepard.InputError", InputError), ("SystemExit", ModelError)],
    )
    def test_a_failure_comes_after_the_answers_before_it(
        self, load: Load, text: str, error: str, expected: type[GuepardError]
    ) -> None:
        failing = text.replace(
            "                yield", f"                if step == 1: raise {error}('no')\n                yield"
        )
        stream = load(failing).executor().execute_stream([ONES], (request(),))
        assert next(stream)[0].tolist() == [[1, 1]]
        with pytest.raises(expected):
            next(stream)

    def test_a_failure_while_closing_is_logged(self, load: Load, caplog: pytest.LogCaptureFixture) -> None:
        text = self.SYNC.replace("self.closed.append(True)", "raise OSError")
        stream = load(text).executor().execute_stream([ONES], (request(),))
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert "raised while closing a stream" in caplog.text

    def test_each_answer_is_checked(self, load: Load) -> None:
        stream = load(self.SYNC.replace('"y":', '"z":')).executor().execute_stream([ONES], (request(),))
        with pytest.raises(ModelError, match="missing: y"):
            next(stream)

    def test_one_answer_is_a_stream_of_one(self, load: Load) -> None:
        (only,) = load(DOUBLE).executor().execute_stream([ONES], (request(),))
        assert only[0].tolist() == [[2, 2]]


class TestFailures:
    @pytest.mark.parametrize("keyword", ["def", "async def"])
    @pytest.mark.parametrize("error", ["ValueError", "SystemExit", "NotImplementedError", "StopIteration"])
    def test_an_exception_is_the_model_s(self, load: Load, keyword: str, error: str) -> None:
        model = load(HEAD + f"    {keyword} predict(self, inputs, ctx):\n        raise {error}('secret')\n")
        with pytest.raises(ModelError) as failure:
            run(model, ONES)
        # A coroutine cannot raise StopIteration: Python turns it into RuntimeError.
        shown = "RuntimeError" if (keyword, error) == ("async def", "StopIteration") else error
        assert failure.value.message == f"model 'm' failed: {shown}"
        assert type(failure.value.__cause__).__name__ == shown, "what the log is to say"

    @pytest.mark.parametrize("keyword", ["def", "async def"])
    def test_an_input_error_is_the_caller_s(self, load: Load, keyword: str) -> None:
        body = "        raise guepard.InputError('no verb', row=1)\n"
        with pytest.raises(InputError, match="no verb") as refusal:
            run(load(HEAD + f"    {keyword} predict(self, inputs, ctx):\n{body}"), ONES)
        assert refusal.value.row == 1

    @pytest.mark.parametrize("keyword", ["def", "async def"])
    def test_an_interrupt_is_not_swallowed(self, load: Load, keyword: str) -> None:
        model = load(HEAD + f"    {keyword} predict(self, inputs, ctx):\n        raise KeyboardInterrupt\n")
        with pytest.raises(KeyboardInterrupt):
            run(model, ONES)

    def test_the_executor_lives_on(self, load: Load) -> None:
        text = (
            HEAD
            + """
    def predict(self, inputs, ctx):
        if inputs["x"][0, 0] < 0:
            raise ValueError
        return {"y": inputs["x"]}
"""
        )
        executor = load(text).executor()
        with pytest.raises(ModelError):
            executor.execute([-ONES], ())
        assert executor.execute([ONES], ())[0].tolist() == [[1, 1]]

    def test_results_are_checked_against_the_declaration(self, load: Load) -> None:
        with pytest.raises(ModelError, match="output 'y' is declared FP32, but predict returned float64"):
            run(load(DOUBLE.replace("* 2", "* 2.0 + __import__('numpy').zeros(2)")), ONES)
        with pytest.raises(ModelError, match=r"must have shape \[1, 2\], it has \[2\]"):
            run(load(DOUBLE.replace("* 2", "[0]")), ONES)

    def test_health_raises_what_the_model_raises(self, load: Load) -> None:
        model = load(DOUBLE + "    def health(self):\n        raise OSError('disk gone')\n")
        model.health()
        model.executor()
        with pytest.raises(OSError, match="disk gone"):
            model.health()

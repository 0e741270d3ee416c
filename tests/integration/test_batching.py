"""Dynamic batching over HTTP: the right answer to the right caller, whoever shares the batch.

The same over gRPC: `test_batching_over_grpc.py`. Padding of sequences: `test_variable_lengths.py`.
"""

import json
import statistics
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import Call, Reply, call_together, one_input

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"

# A batch of these leaves when it is full, long before the delay.
EIGHT = "max_batch_size: 8, dynamic_batching: {max_queue_delay: 20s}"
SOON = "max_batch_size: 8, dynamic_batching: {max_queue_delay: 20ms}"

ONNX = {
    "ident": (onnx_models.identity("INT64", ["n", 1]), SOON),
    "four": (onnx_models.identity("FP32", ["n", 4]), SOON),
    "divide": (onnx_models.divide(1), EIGHT),
    "masked": (onnx_models.masked_mean(), "dynamic_batching: {max_queue_delay: 20ms}"),
    "text": (onnx_models.identity("BYTES", ["n", 1]), SOON),
    "lone": (onnx_models.double(1), "max_batch_size: 8"),
    "patient": (onnx_models.double(1), "max_batch_size: 8, dynamic_batching: {max_queue_delay: 200ms}"),
    "mixing": (onnx_models.batch_mixing(1), ""),
    "batched": (onnx_models.mlp(), "max_batch_size: 128"),
    "unbatched": (onnx_models.mlp(), "max_batch_size: 0"),
}
PYTHON = {
    "echo": ("EchoParameters", SOON),
    "fail": ("FailNegative", EIGHT),
    "fail_once": ("FailNegativeOnce", EIGHT),
    "refuse": ("RefuseNegative", EIGHT),
    "refuse_once": ("RefuseNegativeOnce", EIGHT),
    "ragged": ("Zeros", "max_batch_size: 4, dynamic_batching: {max_queue_delay: 20ms}"),
}


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    entries = []
    for name, (model, options) in ONNX.items():
        onnx_models.write_model(models / f"{name}.onnx", model)
        entries.append(f"  - {{name: {name}, path: {name}.onnx, {options}}}")
    for name, (entry, options) in PYTHON.items():
        path = f"'{PYTHON_MODELS}:{entry}'"
        entries.append(f"  - {{name: {name}, path: {path}, backend: python, trust: true, {options}}}")
    (models / "guepard.yaml").write_text("\n".join(["models:", *entries]))
    return serve("--config", models / "guepard.yaml")


class Executions:
    """What a model did between two looks at its statistics."""

    def __init__(self, server: RunningServer, model: str) -> None:
        self._server = server
        self._model = model
        self._before = self._look()

    def sizes(self) -> dict[int, int]:
        """Executions by their rows."""
        counts = {rows: count - self._before.get(rows, 0) for rows, count in self._look().items()}
        return {rows: count for rows, count in counts.items() if count}

    def _look(self) -> dict[int, int]:
        answer = self._server.request("GET", f"/v2/models/{self._model}/stats")
        (document,) = answer.json["model_stats"]
        return {entry["batch_size"]: entry["compute_infer"]["count"] for entry in document["batch_stats"]}


def numbers(model: str, *values: float, datatype: str = "FP32") -> Call:
    return Call(model, one_input(datatype, values))


def test_each_of_a_hundred_callers_gets_its_own_integer(server: RunningServer) -> None:
    """SeldonIO/MLServer#1306: one caller got the predictions of three, the others nothing."""
    executions = Executions(server, "ident")
    for round_number in range(10):
        values = [round_number * 1_000 + caller for caller in range(100)]
        replies = call_together(server, [numbers("ident", value, datatype="INT64") for value in values])
        for value, reply in zip(values, replies, strict=True):
            assert reply.status == 200
            (output,) = reply.json["outputs"]
            assert (output["data"], output["shape"]) == ([value], [1, 1])
    sizes = executions.sizes()
    assert sum(rows * count for rows, count in sizes.items()) == 1_000
    assert 1 < max(sizes) <= 8
    assert sum(sizes.values()) < 1_000


@pytest.mark.parametrize("copies", [1, 2, 8])
def test_parameters_come_back_as_they_were_sent(server: RunningServer, copies: int) -> None:
    """SeldonIO/MLServer#1541: "123" became "1", and an integer raised."""
    sent = [{"id": "123", "n": 7 + copy, "flag": True, "half": 0.5} for copy in range(copies)]
    sent[-1] = {}
    replies = call_together(server, [Call("echo", one_input("FP32", [0.0], parameters=each)) for each in sent])
    told = [json.loads(reply.data[0]) for reply in replies]
    assert told == sent
    assert [[type(value) for value in each.values()] for each in told] == [
        [type(each[key]) for key in sorted(each)] for each in sent
    ]


class TestLargerRequests:
    def test_no_batch_is_larger_than_the_maximum(self, server: RunningServer) -> None:
        """bentoml/BentoML#3710: a request of 3 rows counted as 1."""
        executions = Executions(server, "four")
        calls = []
        for caller in range(10):
            values = [float(caller * 100 + index) for index in range(12)]
            calls.append(Call("four", one_input("FP32", values, [3, 4])))
        for call, reply in zip(calls, call_together(server, calls), strict=True):
            assert isinstance(call.body, dict)
            assert reply.data == call.body["inputs"][0]["data"]
            assert reply.json["outputs"][0]["shape"] == [3, 4]
        sizes = executions.sizes()
        assert max(sizes) <= 8
        assert sum(rows * count for rows, count in sizes.items()) == 30

    @pytest.mark.parametrize("rows", [9, 16, 100])
    def test_one_larger_than_a_batch_is_split_and_joined_in_order(self, server: RunningServer, rows: int) -> None:
        executions = Executions(server, "four")
        values = [float(index) for index in range(4 * rows)]
        (reply,) = call_together(server, [Call("four", one_input("FP32", values, [rows, 4]))])
        assert reply.data == values
        assert reply.json["outputs"][0]["shape"] == [rows, 4]
        assert max(executions.sizes()) == 8

    def test_large_ones_and_small_ones_together(self, server: RunningServer) -> None:
        calls = []
        for caller in range(30):
            rows = (1, 9, 3, 20)[caller % 4]
            values = [float(caller * 1_000 + index) for index in range(4 * rows)]
            calls.append(Call("four", one_input("FP32", values, [rows, 4])))
        for call, reply in zip(calls, call_together(server, calls), strict=True):
            assert isinstance(call.body, dict)
            assert reply.data == call.body["inputs"][0]["data"]

    def test_a_row_that_fails_in_one_part_fails_the_whole_and_nothing_else(self, server: RunningServer) -> None:
        large = numbers("fail", *range(8), -1.0, *range(7))
        small = [numbers("fail", 50.0 + caller) for caller in range(8)]
        first, *others = call_together(server, [large, *small])
        assert first.status == 500
        assert [reply.data for reply in others] == [[2 * (50.0 + caller)] for caller in range(8)]

    def test_answers_of_different_widths_cannot_be_joined_and_cost_nobody_else_theirs(
        self, server: RunningServer
    ) -> None:
        large = Call("ragged", one_input("INT32", [1, 2, 3, 4, 5, 6]))
        small = [Call("ragged", one_input("INT32", [6])) for _ in range(4)]
        first, *others = call_together(server, [large, *small], timeout_s=5.0)
        assert (first.status, first.json["code"]) == (500, "model_error")
        assert "batches of 4 rows, whose answers differ in shape" in first.json["error"]
        assert [reply.data for reply in others] == [[0] * 6] * 4

    def test_too_many_batches_are_refused(self, server: RunningServer) -> None:
        (reply,) = call_together(server, [numbers("lone", *[1.0] * (8 * 1_024 + 1))])
        assert reply.status == 400
        assert "8193 rows are too many" in reply.json["error"]


class TestOneBadCaller:
    """Lightning-AI/LitServe#340: one bad item made every request of the same batch fail."""

    @staticmethod
    def with_one_bad(server: RunningServer, model: str, bad: Call) -> tuple[Reply, list[Reply]]:
        """The answers to one bad call and to seven good ones of the values 1 to 7, sent together."""
        calls = [numbers(model, float(value)) for value in range(1, 8)]
        calls.insert(3, bad)
        replies = call_together(server, calls)
        return replies.pop(3), replies

    @pytest.mark.parametrize(("model", "status"), [("fail", 500), ("refuse", 400)])
    def test_a_failure_in_the_model(self, server: RunningServer, model: str, status: int) -> None:
        executions = Executions(server, model)
        bad, good = self.with_one_bad(server, model, numbers(model, -1.0))
        assert bad.status == status
        assert [reply.data for reply in good] == [[2.0 * value] for value in range(1, 8)]
        assert 8 not in executions.sizes()
        assert sum(rows * count for rows, count in executions.sizes().items()) == 7

    def test_a_model_that_must_not_run_twice_fails_the_batch(self, server: RunningServer) -> None:
        bad, good = self.with_one_bad(server, "fail_once", numbers("fail_once", -1.0))
        assert {reply.status for reply in [bad, *good]} == {500}
        assert {reply.json["code"] for reply in [bad, *good]} == {"model_error"}
        (after,) = call_together(server, [numbers("fail_once", *range(8))])
        assert after.data == [2.0 * value for value in range(8)]

    def test_a_refused_row_of_such_a_model_is_not_blamed_on_the_others(self, server: RunningServer) -> None:
        bad, good = self.with_one_bad(server, "refuse_once", numbers("refuse_once", -1.0))
        assert (bad.status, bad.json["error"]) == (400, "x must not be negative")
        assert {reply.status for reply in good} == {500}
        assert {reply.json["error"] for reply in good} == {
            "model 'refuse_once' refused another request of the same batch, "
            "and as it is not idempotent this one was not run again"
        }

    @pytest.mark.parametrize(
        ("body", "fragment"),
        [
            (b"{", "JSON"),
            (one_input("FP32", [1.0], [1, 2]), "elements"),
            (one_input("FP64", [1.0]), "datatype"),
            (one_input("FP32", [1.0], [1, 1, 1]), "shape"),
        ],
    )
    def test_a_failure_in_decoding(self, server: RunningServer, body: Any, fragment: str) -> None:
        calls = [numbers("fail", float(value)) for value in range(1, 9)]
        bad, *good = call_together(server, [Call("fail", body), *calls])
        assert bad.status == 400
        assert fragment in bad.json["error"]
        assert [reply.data for reply in good] == [[2.0 * value] for value in range(1, 9)]

    def test_a_failure_in_encoding(self, server: RunningServer) -> None:
        bad, good = self.with_one_bad(server, "divide", numbers("divide", 0.0))
        assert (bad.status, bad.json["code"]) == (406, "not_acceptable")
        assert "NaN" in bad.json["error"]
        assert [reply.data for reply in good] == [[1.0]] * 7

    def test_nothing_of_the_exception_reaches_a_client(self, server: RunningServer) -> None:
        bad, _ = self.with_one_bad(server, "fail", numbers("fail", -1.0))
        assert bad.json["error"] == "model 'fail' failed: ArithmeticError"


class TestSequences:
    """tensorflow/tensor2tensor#1489: short sequences batched with long ones came back as garbage."""

    @staticmethod
    def tokens(length: int, rows: int = 1) -> Call:
        random = np.random.default_rng(length)
        ids = random.integers(0, 1_000, rows * length).tolist()
        inputs = [
            {"name": name, "datatype": "INT64", "shape": [rows, length], "data": data}
            for name, data in (("ids", ids), ("mask", [1] * (rows * length)))
        ]
        return Call("masked", {"inputs": inputs})

    def test_batched_answers_equal_those_alone(self, server: RunningServer) -> None:
        calls = [self.tokens(3), self.tokens(200)]
        alone = [call_together(server, [call])[0].data for call in calls]
        executions = Executions(server, "masked")
        replies = call_together(server, calls * 25)
        for number, reply in enumerate(replies):
            assert reply.data == pytest.approx(alone[number % 2], abs=1e-4)
        assert max(executions.sizes()) > 1


def test_a_byte_string_s_length_is_no_shape(server: RunningServer) -> None:
    """SeldonIO/MLServer#1718: shape [59] with one element of 59 bytes was accepted and un-batched wrongly."""
    wrong, *right = call_together(
        server,
        [
            Call("text", one_input("BYTES", ["x" * 59], [59, 1])),
            *[Call("text", one_input("BYTES", [f"caller {caller}"])) for caller in range(8)],
        ],
    )
    assert wrong.status == 400
    assert "59" in wrong.json["error"]
    assert "1" in wrong.json["error"]
    assert [reply.data for reply in right] == [[f"caller {caller}"] for caller in range(8)]


def test_rows_that_depend_on_their_neighbours_are_never_batched(server: RunningServer) -> None:
    assert server.request("GET", "/v2/models/mixing/config").json["max_batch_size"] == 0
    replies = call_together(server, [numbers("mixing", float(value)) for value in range(16)])
    assert [reply.data for reply in replies] == [[0.0]] * 16


class TestSpeed:
    @staticmethod
    def seconds(server: RunningServer, calls: list[Call], times: int, check: Callable[[Reply], None]) -> list[float]:
        taken = []
        for _ in range(times):
            for reply in call_together(server, calls):
                check(reply)
                taken.append(reply.seconds)
        return taken

    def test_without_batching_a_large_request_takes_no_slower_road(self, server: RunningServer) -> None:
        """SeldonIO/MLServer#1826: a request of 100 rows took twice as long with batching off."""
        values = np.random.default_rng(7).normal(size=3_000).astype(np.float32).tolist()
        body = one_input("FP32", values, [100, 30])
        answers: list[list[float]] = []
        times = {
            model: self.seconds(server, [Call(model, body)], 20, lambda reply: answers.append(reply.data))
            for model in ("batched", "unbatched")
        }
        assert all(answer == pytest.approx(answers[0], abs=1e-5) for answer in answers)
        # Both take a few milliseconds: what is looked for is a road of another kind, not noise.
        assert min(times["unbatched"]) < 1.5 * statistics.median(times["batched"])

    def test_a_lone_request_is_not_delayed(self, server: RunningServer) -> None:
        times = self.seconds(server, [numbers("lone", 1.0)], 20, lambda reply: None)
        assert statistics.median(times) < 0.02

    def test_a_queue_delay_holds_a_lone_request_as_long_as_it_says(self, server: RunningServer) -> None:
        times = self.seconds(server, [numbers("patient", 1.0)], 3, lambda reply: None)
        assert all(0.19 < taken < 0.5 for taken in times)

    def test_a_full_batch_does_not_wait_for_the_delay(self, server: RunningServer) -> None:
        executions = Executions(server, "patient")
        times = self.seconds(server, [numbers("patient", 1.0)] * 8, 1, lambda reply: None)
        assert executions.sizes()[8] == 1
        assert max(times) < 0.19

    def test_the_window_does_not_shrink_with_each_arrival(self, server: RunningServer) -> None:
        """SeldonIO/MLServer#1936, over the wire: five requests 20 ms apart leave together, 200 ms after the first."""
        executions = Executions(server, "patient")
        calls = [Call("patient", one_input("FP32", [float(number)]), delay_s=0.02 * number) for number in range(5)]
        replies = call_together(server, calls)
        assert executions.sizes()[5] == 1
        assert all(later.at - earlier.at < 0.05 for earlier, later in pairwise(replies))
        assert 0.19 < replies[0].seconds < 0.4

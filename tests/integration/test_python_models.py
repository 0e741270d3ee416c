"""Python classes behind the real server, from load to unload.

Streams of several responses need routes of a later part; here they are refused with the reason.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services.callers import Call, call_together, one_input
from tests.services.python_models import RAISED
from tests.services.raw_http import RawClient, gauge, message
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"

CONFIGURATION = f"""
defaults: {{trust: true, backend: python}}
models:
  - name: diary
    path: '{PYTHON_MODELS}:Diary'
    instance_group: {{count: 3}}
    parameters: {{threshold: 0.5, labels: [a, b]}}
  - {{name: async_double, path: '{PYTHON_MODELS}:AsyncDouble'}}
  - {{name: stream, path: '{PYTHON_MODELS}:Stream'}}
  - {{name: async_stream, path: '{PYTHON_MODELS}:AsyncStream'}}
  - {{name: misbehaving, path: '{PYTHON_MODELS}:Misbehaving'}}
  - {{name: unlucky, path: '{PYTHON_MODELS}:Misbehaving'}}
  - {{name: noisy, path: '{PYTHON_MODELS}:Noisy'}}
  - {{name: inline, path: '{PYTHON_MODELS}:FailNegative', instance_group: {{execution: inline}}}}
  - {{name: fails, path: '{PYTHON_MODELS}:FailNegative'}}
  - name: raises
    path: '{PYTHON_MODELS}:RaisesAnything'
    instance_group: {{count: 1}}
    dynamic_batching: {{max_queue_delay: 20ms}}
  - name: raises_inline
    path: '{PYTHON_MODELS}:RaisesAnything'
    instance_group: {{execution: inline}}
    dynamic_batching: {{max_queue_delay: 20ms}}
  - {{name: buffer, path: '{PYTHON_MODELS}:ReturnsItsBuffer', instance_group: {{count: 1}}}}
"""


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    (models / "guepard.yaml").write_text(CONFIGURATION)
    return serve("--config", models / "guepard.yaml", env={"PYTHONUNBUFFERED": "1"})


def told(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    return [json.loads(text) for text in answer.json["outputs"][0]["data"]]


def test_what_a_model_is_told_about_itself_and_its_request(server: RunningServer) -> None:
    body = one_input("INT32", [1], id="mine", parameters={"k": "v", "timeout": 5_000_000, "priority": 1})
    (fields,) = told(server.infer("diary", body))
    seconds_left = fields.pop("seconds_left")
    assert 4 < seconds_left <= 5
    assert fields == {
        "name": "diary",
        "version": "1",
        "model_parameters": {"threshold": 0.5, "labels": ["a", "b"]},
        "id": "mine",
        "parameters": {"k": "v"},
        "requested_outputs": None,
        "is_cancelled": False,
    }


def test_the_outputs_that_were_asked_for(server: RunningServer) -> None:
    answer = server.infer("diary", one_input("INT32", [1], outputs=[{"name": "told"}]))
    assert [output["name"] for output in answer.json["outputs"]] == ["told"]
    (fields,) = told(answer)
    assert fields["requested_outputs"] == ["told"]


def test_each_row_is_told_of_its_own_request(server: RunningServer) -> None:
    calls = [
        Call("diary", one_input("INT32", [0] * (1 + number % 3), id=f"r{number}", parameters={"number": number}))
        for number in range(24)
    ]
    for number, reply in enumerate(call_together(server, calls)):
        rows = [json.loads(text) for text in reply.data]
        assert len(rows) == 1 + number % 3
        assert {(row["id"], row["parameters"]["number"]) for row in rows} == {(f"r{number}", number)}


def test_a_coroutine_answers(server: RunningServer) -> None:
    calls = [Call("async_double", one_input("FP32", [float(number)])) for number in range(20)]
    assert [reply.data for reply in call_together(server, calls)] == [[2.0 * number] for number in range(20)]


def test_python_on_the_event_loop_where_the_operator_says_so(server: RunningServer) -> None:
    config = server.request("GET", "/v2/models/inline/config").json
    assert config["instance_group"][0]["execution"] == "inline"
    assert server.infer("inline", one_input("FP32", [2.0])).json["outputs"][0]["data"] == [4.0]
    assert server.infer("inline", one_input("FP32", [-2.0])).status == 500


@pytest.mark.parametrize("model", ["stream", "async_stream"])
class TestStreams:
    def test_one_response_is_an_answer(self, server: RunningServer, model: str) -> None:
        answer = server.infer(model, one_input("INT32", [1]))
        assert (answer.status, answer.json["outputs"][0]["data"]) == (200, [0])

    @pytest.mark.parametrize("count", [0, 2, 100])
    def test_no_response_or_several_need_a_route_that_streams(
        self, server: RunningServer, model: str, count: int
    ) -> None:
        answer = server.infer(model, one_input("INT32", [count]))
        assert (answer.status, answer.json["code"]) == (501, "unsupported")
        assert answer.json["error"] == f"the model gave {count} responses and this route carries exactly one"

    def test_requests_at_the_same_time_are_answered_each(self, server: RunningServer, model: str) -> None:
        replies = call_together(server, [Call(model, one_input("INT32", [1 + number % 2])) for number in range(10)])
        assert [reply.status for reply in replies] == [200, 501] * 5


class TestMisbehaviour:
    @pytest.mark.parametrize("how", ["raises", "exits", "cancels"])
    def test_an_exception_is_a_500_without_its_text(self, server: RunningServer, how: str) -> None:
        answer = server.infer("misbehaving", one_input("FP32", [1.0], [1], parameters={"how": how}))
        assert (answer.status, answer.json["code"]) == (500, "model_error")
        assert "secret" not in answer.json["error"]
        assert "misbehaving" in answer.json["error"]
        self.expect_a_right_answer(server)

    @pytest.mark.parametrize(
        ("how", "text"),
        [
            ("nothing", "predict must return a dict of outputs by name, it returned NoneType"),
            ("array", "predict must return a dict of outputs by name, it returned ndarray"),
            ("missing", "missing: y"),
            ("extra", "not declared: z"),
            ("shape", "output 'y' must have shape [1], it has [3, 3]"),
            ("datatype", "output 'y' is declared FP32, but predict returned float64"),
            ("ragged", "not a regular array of numbers"),
            ("text", "output 'y' is declared FP32"),
        ],
    )
    def test_a_wrong_answer_is_a_500_that_says_what_is_wrong(self, server: RunningServer, how: str, text: str) -> None:
        answer = server.infer("misbehaving", one_input("FP32", [1.0], [1], parameters={"how": how}))
        assert (answer.status, answer.json["code"]) == (500, "model_error")
        assert text in answer.json["error"]
        self.expect_a_right_answer(server)

    @staticmethod
    def expect_a_right_answer(server: RunningServer) -> None:
        answer = server.infer("misbehaving", one_input("FP32", [1.0], [1]))
        assert (answer.status, answer.json["outputs"][0]["data"]) == (200, [2.0])

    def test_the_exception_is_in_the_log(self, server: RunningServer) -> None:
        headers = {"X-Request-Id": "the-one-that-raised"}
        server.infer("unlucky", one_input("FP32", [1.0], [1], parameters={"how": "raises"}), headers)
        raised = server.wait_for_record("secret: /etc/passwd")
        assert raised["level"] == "error"
        assert "RuntimeError" in raised["exception"]
        assert server.wait_for_record("the-one-that-raised")["status"] == 500

    def test_a_model_that_fails_always_does_not_flood_the_log(self, server: RunningServer) -> None:
        call = Call("fails", one_input("FP32", [-1.0]))
        started = time.monotonic()
        assert {reply.status for _ in range(4) for reply in call_together(server, [call] * 25)} == {500}
        seconds = time.monotonic() - started
        assert "secret: a negative row" in server.wait_for_record("model fails version 1 failed")["exception"]
        told = [record for record in server.records() if "model fails version 1 failed" in str(record.get("message"))]
        assert len(told) <= 1 + seconds

    def test_a_model_that_talks_all_the_time_answers(self, server: RunningServer) -> None:
        replies = call_together(server, [Call("noisy", one_input("FP32", [float(n)])) for n in range(10)])
        assert [reply.data for reply in replies] == [[2.0 * n] for n in range(10)]
        assert server.wait_for_record("noted 1 rows")["logger"] == "guepard.models.noisy"

    def test_what_a_model_prints_never_stands_inside_a_record(self, server: RunningServer) -> None:
        """Containers set PYTHONUNBUFFERED, under which Python writes a printed line in pieces."""
        call_together(server, [Call("noisy", one_input("FP32", [float(n)])) for n in range(30)])
        printed = [record["raw"] for record in server.records() if "raw" in record]
        assert len(printed) > 200
        assert {line.partition(" ")[0] for line in printed} == {"complained"}
        assert not [line for line in printed if "{" in line]


@pytest.mark.parametrize("how", RAISED)
@pytest.mark.parametrize("model", ["raises", "raises_inline"])
def test_whatever_is_raised_is_one_caller_s_answer_and_ends_nothing(
    server: RunningServer, model: str, how: str
) -> None:
    calls = [Call(model, one_input("FP32", [float(number)])) for number in range(1, 4)]
    calls[1] = Call(model, one_input("FP32", [2.0], parameters={"how": how}))
    first, bad, last = call_together(server, calls, timeout_s=5.0)
    if "row" in how or "message" in how:
        assert (bad.status, bad.json["code"]) == (400, "invalid_argument")
        assert "refused" in bad.json["error"]
    else:
        assert (bad.status, bad.json["code"]) == (500, "model_error")
        assert "secret" not in bad.json["error"]
    assert [first.data, last.data] == [[2.0], [6.0]]
    (after,) = call_together(server, [Call(model, one_input("FP32", [5.0]))], timeout_s=5.0)
    assert after.data == [10.0]


class TestOneArrayReturnedAgainAndAgain:
    def test_a_split_request_has_the_rows_of_every_part(self, server: RunningServer) -> None:
        values = [float(number) for number in range(22)]
        answer = server.infer("buffer", one_input("FP32", values, [11, 2]))
        assert answer.json["outputs"][0]["data"] == values

    def test_an_answer_that_is_read_late_holds_what_it_held(self, server: RunningServer) -> None:
        """8 MB do not fit into what the kernel takes: the rest waits in the server while the next request runs."""
        with RawClient(server.http_port, receive_buffer=65_536) as late, RawClient(server.http_port) as prompt:
            before = answered(server, "buffer")
            late.send(filled(1.0))
            wait_until(lambda: gauge(server, "guepard_inflight_bytes") > 0 and answered(server, "buffer") > before)
            assert set(numbers_in(prompt.ask(filled(2.0)))) == {2.0}
            assert answered(server, "buffer") == before + 2
            assert set(numbers_in(late.answer())) == {1.0}


def filled(value: float) -> bytes:
    """An inference request of 8 MB that are all `value`, to be answered in binary."""
    data = np.full(2_000_000, value, np.float32).tobytes()
    x = {"name": "x", "datatype": "FP32", "shape": [1, 2_000_000], "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [x], "parameters": {"binary_data_output": True}}).encode()
    return message("POST", "/v2/models/buffer/infer", head + data, [f"Inference-Header-Content-Length: {len(head)}"])


def numbers_in(answer: Answer) -> NDArray[np.float32]:
    assert answer.status == 200, answer.body
    return np.frombuffer(answer.body[int(answer.headers["inference-header-content-length"]) :], np.float32)


def answered(server: RunningServer, model: str) -> float:
    return gauge(server, f'guepard_inference_executions_total{{model="{model}",version="1"}}')


def test_each_instance_is_loaded_once_and_unloaded_once_before_the_server_ends() -> None:
    with RunningServer(f"diary={PYTHON_MODELS}:Diary") as server:
        server.infer("diary", one_input("INT32", [1]))
        assert server.stop() == 0
        events = [record for record in server.records() if str(record.get("message")).startswith("diary ")]
    assert [event["message"] for event in events] == ["diary load", "diary unload"]
    assert len({event["instance"] for event in events}) == 1


def test_three_instances_share_the_work(server: RunningServer) -> None:
    loaded = {record["instance"] for record in server.records() if record.get("message") == "diary load"}
    assert len(loaded) == 3
    replies = call_together(server, [Call("diary", one_input("INT32", [0] * 4)) for _ in range(60)])
    used = {instance for reply in replies for instance in reply.json["outputs"][1]["data"]}
    assert used <= loaded
    assert len(used) > 1

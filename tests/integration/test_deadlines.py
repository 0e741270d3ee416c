"""Deadlines and queues over HTTP: nobody waits longer than asked, and what cannot wait is told when to come again.

The same over gRPC: `test_same_on_http_and_grpc.py`. Refusing at the door what cannot finish in time and priorities
belong to later parts of the server.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.callers import Call, Reply, call_together, one_input
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"

CONFIGURATION = f"""
defaults: {{trust: true, backend: python}}
models:
  - {{name: single, path: '{PYTHON_MODELS}:Sleep', max_batch_size: 1}}
  - {{name: small, path: '{PYTHON_MODELS}:Sleep', max_batch_size: 1, dynamic_batching: {{max_queue_size: 4}}}}
  - name: narrow
    path: '{PYTHON_MODELS}:Sleep'
    max_concurrency: 1
    dynamic_batching: {{max_queue_size: 4}}
  - name: pair
    path: '{PYTHON_MODELS}:Sleep'
    max_batch_size: 2
    dynamic_batching: {{max_queue_delay: 10s}}
  - name: impatient
    path: '{PYTHON_MODELS}:Sleep'
    max_batch_size: 1
    instance_group: {{count: 8}}
    timeout: {{default: 300ms, max: 500ms}}
"""


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    (models / "guepard.yaml").write_text(CONFIGURATION)
    return serve("--config", models / "guepard.yaml")


@pytest.fixture(autouse=True)
def idle(server: RunningServer) -> None:
    """A late request was answered while the model still slept: each test begins when all instances are free."""
    wait_until(lambda: not re.search(r"^guepard_executing_requests\{.*\} [1-9]", server.metrics(), re.MULTILINE))


def sleep(
    model: str,
    sleep_ms: int,
    *,
    header_ms: float | None = None,
    parameter_ms: float | None = None,
    delay_s: float = 0.0,
) -> Call:
    rest: dict[str, Any] = {} if parameter_ms is None else {"parameters": {"timeout": int(parameter_ms * 1_000)}}
    headers = {} if header_ms is None else {"Guepard-Timeout-Ms": f"{header_ms:g}"}
    return Call(model, one_input("INT32", [sleep_ms], **rest), headers, delay_s)


def assert_late(reply: Reply, seconds: float, where: str) -> None:
    assert (reply.status, reply.json["code"]) == (504, "deadline_exceeded")
    assert reply.json["error"] == f"the deadline passed while {where}"
    assert seconds - 0.002 <= reply.seconds < seconds + 0.15


def counter(server: RunningServer, name: str, model: str, **labels: str) -> float:
    for line in server.metrics().splitlines():
        match = re.fullmatch(rf"{name}\{{(.*)\}} (\S+)", line)
        if match and all(f'{key}="{value}"' in match[1] for key, value in {"model": model, **labels}.items()):
            return float(match[2])
    raise AssertionError(f"no {name} of {model} {labels}")


class TestOnTime:
    def test_while_waiting_behind_a_long_one(self, server: RunningServer) -> None:
        """triton-inference-server/server#7512: a limit of 10 s was noticed after 90 s, when the running one ended."""
        late = counter(server, "guepard_inference_failures_total", "single", reason="TIMEOUT")
        long, waiting = call_together(server, [sleep("single", 1_200), sleep("single", 1, header_ms=500, delay_s=0.1)])
        assert_late(waiting, 0.5, "waiting")
        assert (long.status, long.data) == (200, [1_200])
        assert counter(server, "guepard_inference_failures_total", "single", reason="TIMEOUT") == late + 1

    def test_while_running(self, server: RunningServer) -> None:
        (reply,) = call_together(server, [sleep("single", 400, header_ms=200)])
        assert_late(reply, 0.2, "running")

    def test_the_late_result_goes_to_nobody(self, server: RunningServer) -> None:
        late, after = call_together(server, [sleep("single", 400, header_ms=200), sleep("single", 3, delay_s=0.25)])
        assert_late(late, 0.2, "running")
        assert after.data == [3]

    def test_who_shares_the_batch_of_a_late_one_gets_an_answer(self, server: RunningServer) -> None:
        late, patient = call_together(server, [sleep("pair", 400, header_ms=200), sleep("pair", 5)])
        assert_late(late, 0.2, "running")
        assert patient.data == [5]

    def test_inside_the_queue_delay(self, server: RunningServer) -> None:
        (reply,) = call_together(server, [sleep("pair", 1, header_ms=150)])
        assert_late(reply, 0.15, "waiting")

    def test_a_large_request_has_one_deadline(self, server: RunningServer) -> None:
        body = one_input("INT32", [100] * 20)
        (reply,) = call_together(server, [Call("single", body, {"Guepard-Timeout-Ms": "250"})])
        assert reply.status == 504
        assert reply.seconds < 0.4
        # What was left of it in the queue does not run.
        (after,) = call_together(server, [sleep("single", 1)])
        assert after.data == [1]
        assert after.seconds < 0.3


class TestWhichDeadline:
    @pytest.mark.parametrize(
        ("header_ms", "parameter_ms", "expected_s"),
        [(100, None, 0.1), (None, 100, 0.1), (100, 250, 0.1), (250, 100, 0.1), (None, None, 0.3), (0.5, None, 0.0)],
    )
    def test_the_shorter_wins(
        self, server: RunningServer, header_ms: float | None, parameter_ms: float | None, expected_s: float
    ) -> None:
        call = sleep("impatient", 350, header_ms=header_ms, parameter_ms=parameter_ms)
        (reply,) = call_together(server, [call])
        assert_late(reply, expected_s, "running")

    @pytest.mark.parametrize("argument", ["header_ms", "parameter_ms"])
    def test_nobody_gets_more_than_the_maximum(self, server: RunningServer, argument: str) -> None:
        call = sleep("impatient", 600, **{argument: 60_000})
        (reply,) = call_together(server, [call])
        assert_late(reply, 0.5, "running")

    def test_zero_is_the_default(self, server: RunningServer) -> None:
        (reply,) = call_together(server, [sleep("impatient", 350, parameter_ms=0)])
        assert_late(reply, 0.3, "running")

    @pytest.mark.parametrize("text", ["0", "-5", "soon", "nan", "inf", "1e99", "", "1_000", "1e3", "+5", "0x10", "5 5"])
    def test_a_header_that_is_no_time(self, server: RunningServer, text: str) -> None:
        (reply,) = call_together(server, [Call("single", one_input("INT32", [1]), {"Guepard-Timeout-Ms": text})])
        assert reply.status == 400
        assert "Guepard-Timeout-Ms" in reply.json["error"]

    @pytest.mark.parametrize("value", [-1, 1.5, "soon", True, 2**63])
    def test_a_parameter_that_is_no_time(self, server: RunningServer, value: object) -> None:
        body = one_input("INT32", [1], parameters={"timeout": value})
        (reply,) = call_together(server, [Call("single", body)])
        assert reply.status == 400
        assert "parameters.timeout" in reply.json["error"]


class TestQueue:
    @pytest.mark.parametrize("model", ["small", "narrow"])
    def test_one_executes_four_wait_and_the_rest_is_refused_at_once(self, server: RunningServer, model: str) -> None:
        """ray-project/ray#34280: overload was queued without bound instead of being refused."""
        refused = counter(server, "guepard_inference_failures_total", model, reason="REJECTED")
        replies = call_together(server, [sleep(model, 200)] * 20)
        answered = [reply for reply in replies if reply.status == 200]
        full = [reply for reply in replies if reply.status == 429]
        assert (len(answered), len(full)) == (5, 15)
        assert all(reply.data == [200] for reply in answered)
        for reply in full:
            assert reply.seconds < 0.15
            assert reply.json["code"] == "queue_full"
            assert reply.json["error"] == "the queue is full (4 requests wait); try again later"
            assert int(reply.headers["retry-after"]) >= 1
            assert reply.json["retry_after_ms"] >= 1
        assert counter(server, "guepard_inference_failures_total", model, reason="REJECTED") == refused + 15
        assert counter(server, "guepard_queue_depth", model) == 0

    def test_the_promised_wait_is_about_what_it_takes(self, server: RunningServer) -> None:
        for _ in range(5):
            call_together(server, [sleep("small", 100)])
        replies = call_together(server, [sleep("small", 100)] * 6)
        (full,) = [reply for reply in replies if reply.status == 429]
        assert 200 < full.json["retry_after_ms"] < 800

    def test_first_come_first_served(self, server: RunningServer) -> None:
        """bentoml/BentoML#4592: waiting requests were served last in, first out."""
        replies = call_together(server, [sleep("single", 40, delay_s=0.02 * number) for number in range(10)])
        ends = [reply.at for reply in replies]
        assert ends == sorted(ends)
        assert {reply.status for reply in replies} == {200}

"""Log and trace settings over the wire, by Triton's own client where it has the call: they are shown, changed, felt."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tritonclient.http import InferenceServerClient
from tritonclient.http import aio as triton_aio
from tritonclient.utils import InferenceServerException

from guepard.core.phases import STAMPS
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import Call, SteadyLoad, one_input
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"
PYTHON = {"fail": "FailNegative", "whisper": "Whispers"}
TRACE_DEFAULTS = {
    "trace_file": "",
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_mode": "triton",
}
LOG_DEFAULTS = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    onnx_models.write_model(models / "double.onnx", onnx_models.double(1))
    return serve(models / "double.onnx", *[f"{name}={PYTHON_MODELS}:{entry}" for name, entry in PYTHON.items()])


@pytest.fixture
def client(server: RunningServer) -> Iterator[InferenceServerClient]:
    with InferenceServerClient(server.address) as client:
        yield client
        client.update_trace_settings(settings=dict.fromkeys(TRACE_DEFAULTS))
        for model in ("double", "fail"):
            client.update_trace_settings(model, dict.fromkeys(TRACE_DEFAULTS))
        client.update_log_settings(LOG_DEFAULTS)


def ask(server: RunningServer, name: str, value: float = 1.0, model: str = "double") -> int:
    """A request whose record in the log is known by `name`."""
    return server.infer(model, one_input("FP32", [value], id=name), {"X-Request-Id": name}).status


def flush(server: RunningServer, client: InferenceServerClient) -> list[dict[str, Any]]:
    """The log, once everything that was logged before this call has been written."""
    client.update_log_settings({"log_warning": True})
    name = f"flush-{len(server.records())}"
    server.infer("fail", one_input("FP32", [-1.0]), {"X-Request-Id": name})  # 500: a warning
    server.wait_for_record(f'"{name}"')
    return server.records()


def logged(records: list[dict[str, Any]]) -> set[str]:
    return {record["request_id"] for record in records if record.get("logger") == "guepard.access"}


def traces(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in records if record.get("logger") == "guepard.trace"]


def test_the_server_says_that_it_has_both(client: InferenceServerClient) -> None:
    assert {"trace", "logging"} <= set(client.get_server_metadata()["extensions"])


class TestLogging:
    def test_it_begins_as_configured(self, client: InferenceServerClient) -> None:
        assert client.get_log_settings() == LOG_DEFAULTS

    def test_info_disappears_and_comes_back(self, server: RunningServer, client: InferenceServerClient) -> None:
        assert client.update_log_settings({"log_info": False}) == LOG_DEFAULTS | {"log_info": False}
        assert ask(server, "unheard") == 200
        records = flush(server, client)
        assert "unheard" not in logged(records)
        client.update_log_settings({"log_info": True})
        assert ask(server, "heard again") == 200
        assert "heard again" in logged(flush(server, client))

    def test_warnings_disappear_apart_from_the_rest(self, server: RunningServer, client: InferenceServerClient) -> None:
        client.update_log_settings({"log_warning": False})
        assert ask(server, "failed unheard", -1.0, "fail") == 500
        assert ask(server, "a success") == 200
        records = flush(server, client)
        assert "failed unheard" not in logged(records)
        assert "a success" in logged(records)

    def test_debug_records_come_with_verbosity_and_go(
        self, server: RunningServer, client: InferenceServerClient
    ) -> None:
        for verbosity, value in ((0, 11.0), (1, 22.0), (0, 33.0)):
            client.update_log_settings({"log_verbose_level": verbosity})
            assert ask(server, "a whisper", value, "whisper") == 200
        whispered = [record for record in flush(server, client) if "whispered" in record.get("message", "")]
        assert [(record["level"], record["message"]) for record in whispered] == [("debug", "whispered 22.0")]

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"log_info": False, "log_file": "/tmp/guepard.log"}, "[403]"),
            ({"log_info": False, "log_level": 1}, "log_level: no such log setting"),
            ({"log_info": "no"}, "log_info: expected true or false"),
            ({"log_verbose_level": 2**70}, "log_verbose_level"),
        ],
    )
    def test_a_refused_change_changes_nothing(
        self, client: InferenceServerClient, settings: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(InferenceServerException) as caught:
            client.update_log_settings(settings)
        assert words in str(caught.value)
        assert client.get_log_settings() == LOG_DEFAULTS

    @pytest.mark.parametrize("body", ["[]", '"x"', "1", "{", '{"log_info": NaN}', "[" * 100_000])
    def test_what_is_no_object_is_refused(self, server: RunningServer, body: str) -> None:
        for path in ("/v2/logging", "/v2/trace/setting"):
            answer = server.request("POST", path, body)
            assert answer.status == 400
            assert answer.json["code"] == "invalid_argument"


class TestTracing:
    def test_every_second_request_until_there_are_three(
        self, server: RunningServer, client: InferenceServerClient
    ) -> None:
        settings = {"trace_level": ["TIMESTAMPS"], "trace_rate": "2", "trace_count": "3"}
        assert client.update_trace_settings("double", settings) == TRACE_DEFAULTS | settings
        for number in range(1, 10):
            assert ask(server, f"second-{number}") == 200
        found = [trace for trace in traces(flush(server, client)) if trace.get("inference_id", "").startswith("second")]
        assert [trace["inference_id"] for trace in found] == ["second-2", "second-4", "second-6"]
        for trace in found:
            assert (trace["message"], trace["level"], trace["outcome"]) == ("trace", "info", "success")
            assert (trace["model"], trace["version"]) == ("double", "1")
            stamps = [trace[stamp] for stamp in STAMPS]
            assert stamps == sorted(stamps)
            assert stamps[0] > 0

    def test_a_failure_is_traced_with_its_reason(self, server: RunningServer, client: InferenceServerClient) -> None:
        client.update_trace_settings("fail", {"trace_level": "TIMESTAMPS", "trace_rate": "1"})
        assert ask(server, "failing", -1.0, "fail") == 500
        assert server.infer("fail", one_input("INT32", [1], id="misfit")).status == 400
        found = {trace["inference_id"]: trace for trace in traces(flush(server, client)) if "inference_id" in trace}
        assert (found["failing"]["outcome"], found["failing"]["failure"]) == ("failure", "BACKEND")
        assert (found["misfit"]["outcome"], found["misfit"]["failure"]) == ("failure", "INVALID")

    def test_a_model_overrides_the_server(self, server: RunningServer, client: InferenceServerClient) -> None:
        client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
        client.update_trace_settings("double", {"trace_level": ["OFF"]})
        ask(server, "silent")
        ask(server, "spoken", model="fail")
        client.update_trace_settings("double", {"trace_level": None})
        assert client.get_trace_settings("double") == client.get_trace_settings()
        ask(server, "spoken too")
        ids = [trace.get("inference_id") for trace in traces(flush(server, client))]
        assert "silent" not in ids
        assert ids.count("spoken") == ids.count("spoken too") == 1

    def test_traces_are_written_whatever_is_logged(self, server: RunningServer, client: InferenceServerClient) -> None:
        client.update_trace_settings("double", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
        client.update_log_settings({"log_info": False})
        ask(server, "traced alone")
        records = flush(server, client)
        assert "traced alone" not in logged(records)
        assert "traced alone" in [trace.get("inference_id") for trace in traces(records)]

    def test_settings_outlive_a_reload(self, server: RunningServer, client: InferenceServerClient) -> None:
        client.update_trace_settings("double", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
        client.load_model("double")
        ask(server, "after the reload")
        client.unload_model("double")
        assert client.get_trace_settings("double")["trace_rate"] == "1"
        client.load_model("double")
        assert "after the reload" in [trace.get("inference_id") for trace in traces(flush(server, client))]

    @pytest.mark.parametrize(
        ("settings", "status", "words"),
        [
            ({"trace_level": ["TENSORS"]}, 501, "TENSORS is not served"),
            ({"trace_mode": "opentelemetry"}, 501, "opentelemetry"),
            ({"trace_file": "/tmp/trace.json"}, 403, "trace_file"),
            ({"trace_rate": "0"}, 400, "trace_rate"),
            ({"trace_rate": {"a": 1}}, 400, "trace_rate"),
            ({"trace_count": 10**30}, 400, "trace_count"),
            ({"trace_speed": "1"}, 400, "trace_speed"),
        ],
    )
    @pytest.mark.parametrize("model", [None, "double"])
    def test_a_refused_change_changes_nothing(
        self, client: InferenceServerClient, model: str | None, settings: dict[str, Any], status: int, words: str
    ) -> None:
        with pytest.raises(InferenceServerException) as caught:
            client.update_trace_settings(model, {"trace_level": ["TIMESTAMPS"]} | settings)
        assert str(status) in str(caught.value.status())
        assert words in caught.value.message()
        assert client.get_trace_settings(model) == TRACE_DEFAULTS

    def test_a_model_that_nobody_knows(self, client: InferenceServerClient) -> None:
        for call in (client.get_trace_settings, client.update_trace_settings):
            with pytest.raises(InferenceServerException) as caught:
                call("unknown")
            assert "404" in str(caught.value.status())

    def test_the_asyncio_client(self, server: RunningServer, client: InferenceServerClient) -> None:
        async def change() -> None:
            async with triton_aio.InferenceServerClient(server.address) as client:
                settings = {"trace_rate": "10000", "trace_level": ["TIMESTAMPS"]}
                assert await client.update_trace_settings(settings=settings) == TRACE_DEFAULTS | settings
                assert await client.get_trace_settings("fail") == TRACE_DEFAULTS | settings
                assert await client.update_log_settings({"log_verbose_level": 2}) == LOG_DEFAULTS | {
                    "log_verbose_level": 2
                }
                assert (await client.get_log_settings())["log_verbose_level"] == 2

        asyncio.run(change())


def test_changes_under_load_cost_no_request_and_no_trace_too_many(
    server: RunningServer, client: InferenceServerClient
) -> None:
    """Several clients change settings at once while requests run; every answer stays right."""
    rounds = 25
    failures: list[BaseException] = []

    def change() -> None:
        try:
            with InferenceServerClient(server.address) as own:
                for number in range(rounds):
                    own.update_trace_settings("double", {"trace_level": ["TIMESTAMPS"], "trace_count": "2"})
                    own.update_log_settings({"log_info": bool(number % 2), "log_verbose_level": number % 2})
                    own.update_trace_settings(settings={"trace_rate": str(number % 3 + 1)})
        except BaseException as error:
            failures.append(error)

    client.update_trace_settings("double", {"trace_level": ["TIMESTAMPS"], "trace_count": "0"})
    before = len(traces(flush(server, client)))
    with SteadyLoad(server, Call("double", one_input("FP32", [2.0]))) as load:
        changing = [threading.Thread(target=change) for _ in range(3)]
        for thread in changing:
            thread.start()
        for thread in changing:
            thread.join()
        load.wait_for_more(20)
    assert not failures
    assert all(reply.data == [4.0] for reply in load.replies)
    client.update_trace_settings("double", {"trace_count": "0"})
    client.update_log_settings(LOG_DEFAULTS)
    name = "after the storm"  # which the log hears once the access log has stopped sampling
    wait_until(lambda: ask(server, name) == 200 and name in logged(server.records()))
    # Each of the changes that touch `double` lets it count anew.
    assert 0 < len(traces(flush(server, client))) - before <= 2 * 2 * 3 * rounds

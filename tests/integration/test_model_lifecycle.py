"""Loading, reloading and unloading over the API while callers go on.

A warm-up that must succeed, labels, several versions at once and polling belong to later parts of the server.
"""

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import Call, SteadyLoad, one_input
from tests.services.onnx_models import tensor
from tests.services.raw_http import RawClient, gauge, message
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"

BAD_NAMES = ("01", "-1", "1.0", "+2", " 3", "9223372036854775808")


def times(factor: float, x: str = "x", y: str = "y") -> bytes:
    """y = factor · x, [n, 1]."""
    node = helper.make_node("Mul", [x, "factor"], [y])
    weights = {"factor": np.array(factor, np.float32)}
    return onnx_models.build([node], [tensor(x, "FP32", ["n", 1])], [tensor(y, "FP32", ["n", 1])], weights)


ONE = one_input("FP32", [1.0])

BROKEN = {
    "random bytes": np.random.default_rng(3).bytes(500),
    "an empty file": b"",
    "half a file": times(3.0)[:-40],
    "another input name": times(3.0, x="z"),
    "another output name": times(3.0, y="z"),
    "another datatype": onnx_models.identity("INT64", ["n", 1]),
    "another shape": onnx_models.double(3),
    "an unknown operator": onnx_models.unknown_operator(),
    "no tensors": onnx_models.sequence_output(),
}


@pytest.fixture(scope="module")
def repository(models: Path) -> Path:
    for name, versions in {"m": "2", "other": "1", "many": "139"}.items():
        for version in versions:
            onnx_models.write_model(models / name / version, times(float(version)))
    for name in BAD_NAMES:
        onnx_models.write_model(models / "many" / name, times(99.0))
    return models


@pytest.fixture(scope="module")
def server(serve: Serve, repository: Path) -> RunningServer:
    return serve("--model-repository", repository, *[f"{n}={PYTHON_MODELS}:{n.title()}" for n in ("diary", "sleep")])


@pytest.fixture
def m(repository: Path, server: RunningServer) -> Iterator[Path]:
    """The file of model `m`, which is put right again and loaded afterwards."""
    path = repository / "m" / "2" / "model.onnx"
    yield path
    path.write_bytes(times(2.0))
    assert load(server, "m").status == 200


def load(server: RunningServer, model: str, **body: Any) -> Answer:
    return server.request("POST", f"/v2/repository/models/{model}/load", body)


def unload(server: RunningServer, model: str) -> Answer:
    return server.request("POST", f"/v2/repository/models/{model}/unload", {})


def index(server: RunningServer) -> dict[str, tuple[str, str, str]]:
    """Version, state and reason of each model."""
    entries = server.request("POST", "/v2/repository/index", {}).json
    assert len({entry["name"] for entry in entries}) == len(entries)
    return {entry["name"]: (entry["version"], entry["state"], entry["reason"]) for entry in entries}


def value(server: RunningServer, model: str) -> float:
    answer = server.infer(model, ONE)
    assert answer.status == 200, answer.body
    (found,) = answer.json["outputs"][0]["data"]
    return float(found)


class TestReload:
    def test_no_request_fails_and_each_answer_is_of_one_content(self, server: RunningServer, m: Path) -> None:
        loaded = {0.0: 2}  # when a load had ended: what it loaded
        with SteadyLoad(server, Call("m", ONE)) as steady:
            for factor in range(3, 11):
                m.write_bytes(times(float(factor)))
                assert load(server, "m").status == 200
                loaded[time.monotonic()] = factor
                assert value(server, "m") == factor
                steady.wait_for_more(20)
        assert {reply.status for reply in steady.replies} == {200}
        assert {reply.data[0] for reply in steady.replies} == set(loaded.values())
        for reply in steady.replies:
            sent = reply.at - reply.seconds
            assert reply.data[0] >= max(factor for moment, factor in loaded.items() if moment <= sent)

    @pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
    def test_one_that_fails_leaves_the_old_one_serving_and_says_why(
        self, server: RunningServer, m: Path, content: bytes
    ) -> None:
        """triton-inference-server/server PR#2162: a failing reload left the model unavailable."""
        with SteadyLoad(server, Call("m", ONE), callers=2) as steady:
            m.write_bytes(content)
            answer = load(server, "m")
            steady.wait_for_more(10)
        assert answer.status == 503
        why = answer.json["error"].removeprefix("model 'm' could not be loaded: ")
        assert why != answer.json["error"]
        assert str(m.parent) not in answer.json["error"]
        assert {reply.status for reply in steady.replies} == {200}
        assert {reply.data[0] for reply in steady.replies} == {2.0}
        assert index(server)["m"] == ("2", "READY", f"reload failed: {why}")
        assert server.request("GET", "/v2/models/m/ready").status == 200
        assert server.request("GET", "/v2/health/ready").status == 200

        m.write_bytes(times(5.0))
        assert load(server, "m").status == 200
        assert index(server)["m"] == ("2", "READY", "")
        assert value(server, "m") == 5.0

    def test_a_missing_file(self, server: RunningServer, m: Path) -> None:
        m.unlink()
        answer = load(server, "m")
        assert answer.status == 503
        assert "model.onnx" in answer.json["error"]
        assert value(server, "m") == 2.0

    def test_a_signature_that_callers_could_not_use_names_the_way_out(self, server: RunningServer, m: Path) -> None:
        m.write_bytes(times(3.0, x="z"))
        assert "input 'x' is gone; unload the model first to change it" in load(server, "m").json["error"]
        assert unload(server, "m").status == 200
        assert load(server, "m").status == 200
        body = {"inputs": [{"name": "z", "datatype": "FP32", "shape": [1, 1], "data": [2.0]}]}
        assert server.infer("m", body).json["outputs"][0]["data"] == [6.0]
        assert unload(server, "m").status == 200

    def test_many_at_once_end_in_one_that_serves(self, server: RunningServer, m: Path) -> None:
        with SteadyLoad(server, Call("m", ONE), callers=2) as steady, ThreadPoolExecutor(5) as pool:
            answers = list(pool.map(lambda _: load(server, "m"), range(10)))
        assert {answer.status for answer in answers} == {200}
        assert {reply.status for reply in steady.replies} == {200}

    def test_a_slow_unload_of_the_old_one_holds_nobody_up(self, server: RunningServer, m: Path) -> None:
        with SteadyLoad(server, Call("m", ONE), callers=1) as steady:
            before = len([record for record in server.records() if record.get("message") == "diary unload"])
            assert load(server, "diary").status == 200
            while len([r for r in server.records() if r.get("message") == "diary unload"]) == before:
                steady.wait_for_more(1)
        assert max(reply.seconds for reply in steady.replies) < 0.25

    def test_who_leaves_while_waiting_for_the_old_one_leaves_nothing_behind(self, server: RunningServer) -> None:
        """The request that aims a path anew at the new version must not lead the others' leaving there."""
        infer = "/v2/models/sleep/infer"
        full, lone = [json.dumps(one_input("INT32", values)).encode() for values in ([700] * 8, [1])]
        instances = server.request("GET", "/v2/models/sleep/config").json["instance_group"][0]["count"]
        labels = '{model="sleep",version="1"}'
        waiting = [RawClient(server.http_port) for _ in range(instances + 4)]
        for client in waiting:
            client.send(message("POST", infer, full))
        wait_until(lambda: gauge(server, f"guepard_queue_depth{labels}") == 4)
        assert load(server, "sleep").status == 200
        with RawClient(server.http_port) as client:
            assert client.ask(message("POST", infer, lone)).status == 200
        for client in waiting:
            client.reset()
        wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 0)


class TestUnload:
    def test_what_was_taken_in_is_answered_and_then_nothing_is(self, server: RunningServer, repository: Path) -> None:
        with SteadyLoad(server, Call("other", ONE)) as steady:
            steady.wait_for_more(20)
            assert unload(server, "other").status == 200
            steady.wait_for_more(8)
        assert {reply.status for reply in steady.replies} == {200, 503}
        refused = next(reply for reply in steady.replies if reply.status == 503)
        assert refused.json["code"] == "not_ready"
        assert int(refused.headers["retry-after"]) >= 1
        statuses = [reply.status for reply in sorted(steady.replies, key=lambda reply: reply.at)]
        assert statuses[-4:] == [503] * 4
        assert index(server)["other"] == ("1", "UNAVAILABLE", "unloaded")
        assert server.request("GET", "/v2/models/other/ready").status == 503
        assert server.request("GET", "/v2/models/other").status == 503
        assert 'model="other"' not in server.metrics()
        assert unload(server, "other").status == 200
        assert load(server, "other").status == 200
        assert value(server, "other") == 1.0
        assert 'model="other"' in server.metrics()

    def test_an_unknown_model(self, server: RunningServer) -> None:
        assert unload(server, "nope").status == 404
        assert load(server, "nope").status == 404


class TestVersions:
    def test_the_highest_version_serves_and_bad_names_are_reported(self, server: RunningServer) -> None:
        """triton-inference-server/server#1366: `01` was taken as version 1, or ignored in silence."""
        assert index(server)["many"] == ("9", "READY", "")
        answer = server.infer("many", ONE)
        assert (answer.json["outputs"][0]["data"], answer.json["model_version"]) == ([9.0], "9")
        assert answer.headers["guepard-model-version"] == "9"
        warnings = [record["message"] for record in server.records() if record.get("level") == "warning"]
        for name in BAD_NAMES:
            assert len([text for text in warnings if text.endswith(f": {name}")]) == 1

    @pytest.mark.parametrize(
        "version",
        ["1", "3", "-1", "0", "09", "18446744073709551615", "99999999999999999999", "latest", "%F0%9F%98%80", ""],
    )
    def test_a_version_that_does_not_serve(self, server: RunningServer, version: str) -> None:
        """triton-inference-server/server#7052: -1 became 18446744073709551615 and froze the server."""
        path = f"/v2/models/many/versions/{version}"
        for method, tail in (("POST", "/infer"), ("GET", ""), ("GET", "/ready"), ("GET", "/config"), ("GET", "/stats")):
            answer = server.request(method, path + tail, ONE if method == "POST" else None)
            assert (answer.status, answer.json["code"]) == (404, "not_found")
        assert server.request("POST", "/v2/models/many/versions/9/infer", ONE).status == 200

    def test_a_version_that_appears_is_taken_by_the_next_load(self, server: RunningServer, repository: Path) -> None:
        onnx_models.write_model(repository / "many" / "12", times(12.0))
        assert value(server, "many") == 9.0
        assert load(server, "many").status == 200
        assert value(server, "many") == 12.0
        assert index(server)["many"] == ("12", "READY", "")
        assert server.request("GET", "/v2/models/many/versions/9").status == 404
        shutil.rmtree(repository / "many" / "12")
        assert load(server, "many").status == 200
        assert value(server, "many") == 9.0


class TestRepository:
    def test_a_model_that_appears_later(self, server: RunningServer, repository: Path) -> None:
        onnx_models.write_model(repository / "late" / "1", times(7.0))
        assert index(server)["late"] == ("", "UNAVAILABLE", "not loaded")
        assert server.infer("late", ONE).status == 404
        assert load(server, "late").status == 200
        assert value(server, "late") == 7.0
        assert unload(server, "late").status == 200
        shutil.rmtree(repository / "late")
        assert load(server, "late").status == 404

    def test_one_that_failed_at_start_says_why_and_can_be_mended(self, serve: Serve, tmp_path: Path) -> None:
        onnx_models.write_model(tmp_path / "sound" / "1", times(3.0))
        (tmp_path / "hollow").mkdir()
        server = serve("--model-repository", tmp_path)
        version, state, reason = index(server)["hollow"]
        assert (version, state) == ("", "UNAVAILABLE")
        assert "the model folder is empty" in reason
        assert server.infer("hollow", ONE).status == 503
        assert value(server, "sound") == 3.0
        ready = server.request("GET", "/v2/health/ready")
        assert (ready.status, ready.json["error"]) == (503, "not ready: hollow")

        onnx_models.write_model(tmp_path / "hollow" / "1", times(4.0))
        assert load(server, "hollow").status == 200
        assert value(server, "hollow") == 4.0
        assert server.request("GET", "/v2/health/ready").status == 200

    def test_one_that_was_unloaded_on_purpose_does_not_make_the_server_unready(self, server: RunningServer) -> None:
        assert unload(server, "other").status == 200
        assert server.request("GET", "/v2/health/ready").status == 200
        assert load(server, "other").status == 200
        assert server.request("GET", "/v2/health/ready").status == 200

    def test_only_what_is_ready_when_asked_so(self, server: RunningServer, repository: Path) -> None:
        onnx_models.write_model(repository / "idle" / "1", times(1.0))
        entries = server.request("POST", "/v2/repository/index", {"ready": True}).json
        assert "m" in {entry["name"] for entry in entries}
        assert {entry["state"] for entry in entries} == {"READY"}


def python_model(load: str = "pass", predict: str = 'return {"y": inputs["x"]}', unload: str = "pass") -> str:
    return f"""
import guepard


class M(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [1])]
    outputs = [guepard.Tensor("y", "FP32", [1])]
    max_batch_size = 8

    def load(self, ctx):
        {load}

    def predict(self, inputs, ctx):
        {predict}

    def unload(self):
        {unload}
"""


UNKIND = {
    "interrupt": {"load": "raise KeyboardInterrupt"},
    "exit": {"load": "raise SystemExit(3)"},
    "generator": {"load": "raise GeneratorExit"},
    "base": {"load": "raise BaseException('secret')"},
    "group": {"load": "raise BaseExceptionGroup('secret', [KeyboardInterrupt()])"},
    "first_run": {"predict": "raise KeyboardInterrupt"},
}


class TestPythonModels:
    def test_whatever_a_load_raises_the_server_is_up_and_the_model_can_be_mended(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        for name, faults in UNKIND.items():
            (tmp_path / f"{name}.py").write_text(python_model(**faults))
        server = serve(*[f"{name}={tmp_path}/{name}.py:M" for name in UNKIND])
        assert server.request("GET", "/v2/health/live").status == 200
        for name, faults in UNKIND.items():
            raised = next(iter(faults.values())).removeprefix("raise ").partition("(")[0]
            for answer in (load(server, name), server.infer(name, ONE)):
                assert (answer.status, answer.json["code"]) == (503, "not_ready")
                assert raised in answer.json["error"]
                assert "secret" not in answer.json["error"]
            version, state, reason = index(server)[name]
            assert (version, state) == ("1", "UNAVAILABLE")
            assert raised in reason
            (tmp_path / f"{name}.py").write_text(python_model())
            assert load(server, name).status == 200
            assert value(server, name) == 1.0

    @pytest.mark.parametrize("execution", ["thread", "inline"])
    def test_new_code_that_works_for_nobody_does_not_replace_what_serves(
        self, serve: Serve, tmp_path: Path, execution: str
    ) -> None:
        file = tmp_path / "m.py"
        file.write_text(python_model(unload="raise KeyboardInterrupt"))
        (tmp_path / "guepard.yaml").write_text(
            f"models: [{{name: m, path: 'm.py:M', trust: true, instance_group: {{execution: {execution}}}}}]"
        )
        server = serve("--config", tmp_path / "guepard.yaml")
        for predict in ("raise RuntimeError('broken')", "raise KeyboardInterrupt", "return {'y': inputs['x'][:0]}"):
            file.write_text(python_model(predict=predict))
            answer = load(server, "m")
            assert answer.status == 503
            assert index(server)["m"][1] == "READY"
            assert index(server)["m"][2].startswith("reload failed: ")
            assert value(server, "m") == 1.0
        file.write_text(python_model(predict='return {"y": inputs["x"] * 2}'))
        assert load(server, "m").status == 200
        assert value(server, "m") == 2.0

    @pytest.mark.parametrize("execution", ["thread", "inline"])
    def test_whatever_an_unload_raises_the_model_is_gone(self, serve: Serve, tmp_path: Path, execution: str) -> None:
        (tmp_path / "m.py").write_text(python_model(unload="raise KeyboardInterrupt"))
        (tmp_path / "guepard.yaml").write_text(
            f"models: [{{name: m, path: 'm.py:M', trust: true, instance_group: {{execution: {execution}}}}}]"
        )
        server = serve("--config", tmp_path / "guepard.yaml")
        assert unload(server, "m").status == 200
        assert index(server)["m"][1:] == ("UNAVAILABLE", "unloaded")
        assert load(server, "m").status == 200
        assert value(server, "m") == 1.0


class TestControlModes:
    def test_none_loads_all_and_refuses_changes(self, serve: Serve, repository: Path) -> None:
        server = serve("--model-repository", repository, "--model-control-mode", "none")
        assert value(server, "m") == 2.0
        for answer in (load(server, "m"), unload(server, "m")):
            assert (answer.status, answer.json["code"]) == (403, "permission_denied")
            assert "--model-control-mode explicit" in answer.json["error"]
        assert value(server, "m") == 2.0

    def test_explicit_loads_what_is_named(self, serve: Serve, repository: Path) -> None:
        server = serve("--model-repository", repository, "--model-control-mode", "explicit", "--load-model", "m")
        assert value(server, "m") == 2.0
        assert index(server)["other"] == ("", "UNAVAILABLE", "not loaded")
        assert server.infer("other", ONE).status == 404
        assert load(server, "other").status == 200
        assert value(server, "other") == 1.0

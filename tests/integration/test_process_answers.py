"""A model in a process answers as the same model on a thread does, whatever it is asked and whatever it does."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from guepard.core.datatypes import DATATYPES
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import Call, call_together, one_input
from tests.services.four_ways import BINARY, FORMS, JSON_FORM, RAW, Ask, Given, Outcome, send
from tests.services.onnx_models import write_model
from tests.services.processes import children_of, do
from tests.services.python_models import RAISED
from tests.services.raw_http import RawClient, message
from tests.services.waiting import wait_until

SERVICES = Path(__file__).parent.parent / "services"
PROCESS_MODELS, PYTHON_MODELS = SERVICES / "process_models.py", SERVICES / "python_models.py"

# Served twice: `NAME_thread` and `NAME_process`.
BOTH = {
    "all": f"path: '{PROCESS_MODELS}:EchoEverything'",
    "raises": f"path: '{PYTHON_MODELS}:RaisesAnything'",
    "refuses": f"path: '{PYTHON_MODELS}:RefuseNegative'",
    "wrong": f"path: '{PYTHON_MODELS}:Misbehaving'",
    "async": f"path: '{PYTHON_MODELS}:AsyncDouble'",
    "echo": f"path: '{PYTHON_MODELS}:ReturnsItsBuffer'",
}
TWO_OUTPUTS = "two_outputs"


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    write_model(models / "two_outputs.onnx", onnx_models.two_outputs(4))
    both = BOTH | {
        TWO_OUTPUTS: "path: two_outputs.onnx, backend: onnxruntime",
        "identity": "backend: identity, max_batch_size: 0, inputs: ["
        + ", ".join(f"{{name: {name}, datatype: {name}, dims: [-1]}}" for name in DATATYPES)
        + "]",
    }
    lines = ["defaults: {trust: true, backend: python}", "models:"]
    for name, fields in both.items():
        for execution in ("thread", "process"):
            group = f"instance_group: {{execution: {execution}, count: 1}}"
            lines.append(f"  - {{name: {name}_{execution}, {fields}, {group}}}")
    group = "instance_group: {execution: process, count: 1}"
    lines += [
        f"  - {{name: keeps, path: '{PROCESS_MODELS}:Keeps', {group}}}",
        f"  - {{name: waits, path: '{PROCESS_MODELS}:WaitsForTheEnd', {group}}}",
        f"  - {{name: noisy, path: '{PYTHON_MODELS}:Noisy', {group}}}",
        f"  - {{name: moody, path: '{PROCESS_MODELS}:Moody', parameters: {{mark: '{models}/mark'}}, {group}}}",
    ]
    (models / "guepard.yaml").write_text("\n".join(lines))
    return serve("--config", models / "guepard.yaml", env={"PYTHONUNBUFFERED": "1"})


@pytest.fixture(scope="module")
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(server.grpc_address, options=options) as channel:
        yield channel


def both(server: RunningServer, channel: grpc.Channel, form: str, ask: Ask) -> tuple[Outcome, Outcome]:
    """Of the model on a thread and of that in a process, the former in the words of the latter."""
    name = ask.model
    on_thread = send(form, server, channel, ask._replace(model=f"{name}_thread"))
    in_process = send(form, server, channel, ask._replace(model=f"{name}_process"))
    return on_thread._replace(text=on_thread.text.replace(f"{name}_thread", f"{name}_process")), in_process


def values(datatype: str, count: int) -> Sequence[Any]:
    if datatype == "BYTES":
        return ["", "a", "wörter " * 700][:count] + ["x"] * (count - 3)
    if datatype == "BOOL":
        return [number % 3 == 0 for number in range(count)]
    return [float(number % 100) if DATATYPES[datatype].kind == "float" else number % 100 for number in range(count)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [0, 1, 3, 3_000])
@pytest.mark.parametrize("model", ["all", "identity"])
def test_every_datatype_in_every_form(
    server: RunningServer, channel: grpc.Channel, form: str, count: int, model: str
) -> None:
    """Few values travel within a frame, many in shared memory."""
    ask = Ask(model, [Given(name, [count], values(name, count), name) for name in DATATYPES], id="mine")
    on_thread, in_process = both(server, channel, form, ask)
    assert (in_process.code, in_process.id) == ("ok", "mine")
    assert in_process == on_thread
    assert [shape for _, _, shape, _ in in_process.outputs] == [(count,)] * len(DATATYPES)


@pytest.mark.parametrize("form", FORMS)
def test_optional_inputs_and_requested_outputs(server: RunningServer, channel: grpc.Channel, form: str) -> None:
    inputs = [Given(name, [2], values(name, 2), name) for name in ("INT8", "BYTES")]
    ask = Ask("all", inputs, outputs=("BYTES_back", "FP64_back", "INT8_back"))
    on_thread, in_process = both(server, channel, form, ask)
    assert in_process.code == "ok"
    assert in_process == on_thread
    ask = Ask(TWO_OUTPUTS, [Given("INT64", [1, 4], [1, 2, 3, 4])], outputs=("negated",))
    on_thread, in_process = both(server, channel, form, ask)
    assert (in_process.code, len(in_process.outputs)) == ("ok", 1)
    assert in_process == on_thread


@pytest.mark.parametrize("how", RAISED)
def test_whatever_is_raised(server: RunningServer, channel: grpc.Channel, how: str) -> None:
    ask = Ask("raises", [Given("FP32", [1, 1], [1.0])], parameters={"how": how})
    on_thread, in_process = both(server, channel, JSON_FORM, ask)
    assert in_process.code in ("model_error", "invalid_argument")
    assert in_process == on_thread


@pytest.mark.parametrize(
    "how", ["raises", "exits", "cancels", "nothing", "array", "missing", "extra", "shape", "datatype", "ragged", "text"]
)
def test_wrong_answers(server: RunningServer, channel: grpc.Channel, how: str) -> None:
    ask = Ask("wrong", [Given("FP32", [1], [1.0])], parameters={"how": how})
    on_thread, in_process = both(server, channel, JSON_FORM, ask)
    assert in_process.code == "model_error"
    assert in_process == on_thread


def test_a_refused_row_is_one_caller_s(server: RunningServer) -> None:
    for execution in ("thread", "process"):
        calls = [Call(f"refuses_{execution}", one_input("FP32", [float(number)])) for number in (1, 2, -1, 3)]
        replies = call_together(server, calls)
        assert [reply.status for reply in replies] == [200, 200, 400, 200]
        assert "x must not be negative" in replies[2].json["error"]


def test_coroutines_batches_of_many_requests_and_splits(server: RunningServer) -> None:
    calls = [Call("async_process", one_input("FP32", [float(number)] * (1 + number % 20))) for number in range(60)]
    for number, reply in enumerate(call_together(server, calls)):
        assert reply.data == [2.0 * number] * (1 + number % 20)


def test_large_tensors(server: RunningServer, channel: grpc.Channel) -> None:
    """Whatever bits they are: nothing between the caller and the model looks at them."""
    data = np.random.default_rng(1).bytes(40_000_000)
    for form, count in ((BINARY, 10_000_000), (RAW, 4_000_000)):
        inputs = [Given(name, [0], (), name) for name in DATATYPES if name != "FP32"]
        inputs.append(Given("FP32", [count], (), "FP32", data[: 4 * count]))
        outcome = send(form, server, channel, Ask("identity_process", inputs))
        assert outcome.code == "ok", outcome.text
        (answer,) = [content for *_, content in outcome.outputs if content]
        assert answer == data[: 4 * count]


def test_what_a_model_keeps_stays_as_it_was(server: RunningServer) -> None:
    """The memory that inputs come in is used again and again."""
    for number in range(60):
        answer = server.infer("keeps", one_input("FP32", [float(number)] * 2_000, [1, 2_000]))
        assert answer.json["outputs"][0]["data"] == [0]


def test_a_model_is_told_that_its_client_has_left_or_its_deadline_passed(server: RunningServer) -> None:
    body = b'{"id": "%s", "inputs": [{"name": "x", "datatype": "INT32", "shape": [1, 1], "data": [1]}]}'
    with RawClient(server.http_port) as client:
        client.send(message("POST", "/v2/models/waits/infer", body % b"leaves"))
        server.wait_for_record("began leaves")
    assert server.wait_for_record("ended leaves")["message"] == "ended leaves: gone"
    answer = server.request("POST", "/v2/models/waits/infer", body % b"late", {"Guepard-Timeout-Ms": "100"})
    assert answer.status == 504
    record = server.wait_for_record("ended late")
    assert (record["message"], record["late"], record["logger"]) == ("ended late: late", True, "guepard.models.waits")


def test_prints_stand_beside_records_and_never_inside(server: RunningServer) -> None:
    replies = call_together(server, [Call("noisy", one_input("FP32", [float(number)])) for number in range(20)])
    assert [reply.data for reply in replies] == [[2.0 * number] for number in range(20)]
    server.wait_for_record("noted 1 rows")
    raw = [record["raw"] for record in server.records() if "raw" in record]
    assert raw
    assert all(line.startswith("complained ") and line.endswith("x" * 100) for line in raw)


def test_the_log_and_what_a_model_raised_reach_the_server(server: RunningServer, models: Path) -> None:
    record = server.wait_for_record("moody load")
    assert (record["where"], record["number"], record["huge"]) == (f"{models}/mark", 7, str(2**80))
    answer = do(server, "moody", raises=True)
    assert (answer.status, answer.json["error"]) == (500, "model 'moody' failed: LookupError")
    traceback = server.wait_for_record("only for the log")["exception"]
    assert "in predict" in traceback
    assert [record["message"] for record in server.records() if "LookupError" in record.get("exception", "")] == [
        "model moody version 1 failed"
    ]
    assert server.request("POST", "/v2/repository/models/moody/unload", b"").status == 200
    server.wait_for_record("moody unload")


def test_an_answer_that_is_read_slowly_stays_right_and_keeps_no_memory(server: RunningServer) -> None:
    """Its memory is not used for others meanwhile; that of all others is, again and again."""
    width = 500_000
    numbers = np.arange(width, dtype=np.float32)
    head = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, %d], "parameters": {"binary_data_size": %d}}]'
    head = head % (width, numbers.nbytes) + b', "parameters": {"binary_data_output": true}}'
    lines = [f"Inference-Header-Content-Length: {len(head)}"]
    with RawClient(server.http_port, receive_buffer=4_096, timeout_s=60) as slow:
        slow.send(message("POST", "/v2/models/echo_process/infer", head + numbers.tobytes(), lines))
        wait_until(lambda: 'guepard_executing_requests{model="echo_process",version="1"} 0.0' in server.metrics())
        with RawClient(server.http_port) as client:
            for number in range(1_000):
                other = np.full(3_000, number, np.float32)
                text = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3000], "parameters": '
                text += b'{"binary_data_size": 12000}}], "parameters": {"binary_data_output": true}}'
                line = [f"Inference-Header-Content-Length: {len(text)}"]
                answer = client.ask(message("POST", "/v2/models/echo_process/infer", text + other.tobytes(), line))
                assert answer.body.endswith(other.tobytes())
        assert slow.answer().body.endswith(numbers.tobytes())
    sizes = [shared_mib(pid, "guepard-echo_process-out") for pid in children_of(server.process.pid)]
    assert max(sizes) < 64


def shared_mib(pid: int, name: str) -> float:
    """What of the memory with this name is in use, as one process has it mapped."""
    pages = 0
    mine = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            mine = name in line
        elif mine and line.startswith("Rss:"):
            pages += int(line.split()[1])
    return pages / 1_024

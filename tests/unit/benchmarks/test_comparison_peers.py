"""What is declared of each contender, and the visits and requests that come of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.comparisons.assignment import Assignment, read_assignment
from benchmarks.comparisons.form import GRPC, PREDICT, V2_BINARY, Form, batch_json, plain_json, raw_bytes
from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.peer_environment import NotInstalled, environment_of
from benchmarks.comparisons.peers.mlserver import declaration as mlserver
from benchmarks.comparisons.peers.triton import declaration as triton
from benchmarks.comparisons.records import LoadRecord
from benchmarks.comparisons.registry import BY_NAME, PEERS
from benchmarks.comparisons.run import Gathering, connections_for, rotated
from benchmarks.comparisons.setting import Setting, Settings, turns_for
from benchmarks.comparisons.visit import Load, Visit, load_plan, visits
from benchmarks.models import MINILM, MLP, RESNET50
from benchmarks.serving import contender
from benchmarks.serving.payload import Answer
from tests.unit.benchmarks.comparisons import a_load

ASSIGNMENT = Assignment(
    model="mlp",
    file="/models/mlp.onnx",
    input_name="x",
    output_name="y",
    input_dtype="float32",
    input_shape=(30,),
    output_shape=(2,),
    http_port=1001,
    grpc_port=1002,
    other_ports=(1003, 1004, 1005),
    instances=2,
    threads=1,
    max_batch_size=64,
    delay_ms=1,
    form="json",
)


def a_peer(**other: object) -> Peer:
    told: dict[str, object] = {
        "name": "some", "title": "Some", "package": "some", "home": "", "set_up": "", "command": lambda *_: ["false"],
        "forms": (plain_json("/p"), raw_bytes("/b"), GRPC),
        "settings": Settings(
            small=(Setting(name="many"), Setting(name="few", connections=frozenset((1, 8)))),
            large=(Setting(name="wide", connections=frozenset((1,))),),
        ),
    }  # fmt: skip
    return Peer(**{**told, **other})  # type: ignore[arg-type]


def test_every_peer_has_a_folder_and_pins_every_requirement() -> None:
    for peer in PEERS:
        if not peer.is_own:
            lines = peer.requirements.read_text().split()
            assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.]+", line) for line in lines), peer.name
            assert any(line.startswith(f"{peer.package}==") or f"{peer.package}[" in line for line in lines), peer.name


def test_all_peers_pin_the_same_engine() -> None:
    pins = {line for peer in PEERS if not peer.is_own for line in peer.requirements.read_text().split()}
    assert len({pin for pin in pins if pin.startswith("onnxruntime==")}) == 1


def test_an_assignment_reaches_the_server_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ASSIGNMENT.as_environment().items():
        monkeypatch.setenv(name, value)
    assert read_assignment() == ASSIGNMENT


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_commands_name_the_port_or_leave_it_to_the_assignment(name: str, tmp_path: Path) -> None:
    words = BY_NAME[name].command(ASSIGNMENT, tmp_path)
    files = [word for word in words if word.endswith(".py")]
    assert all(Path(file).is_file() for file in files)
    assert any("1001" in word for word in words) or files or str(tmp_path) in " ".join(words)


def test_a_visit_is_made_for_each_setting_that_suits_some_connections() -> None:
    found = list(visits(a_peer(), MLP, (1, 64)))
    told = [(visit.setting.name, visit.connections, [form.kind for form in visit.forms]) for visit in found]
    assert told == [("many", (1, 64), ["json", "binary", "grpc"]), ("few", (1,), ["json", "binary", "grpc"])]


def test_large_models_have_settings_and_forms_of_their_own() -> None:
    (visit,) = visits(a_peer(), MINILM, (1, 8))
    assert (visit.setting.name, visit.connections) == ("wide", (1,))
    assert [form.kind for form in visit.forms] == ["binary"]
    assert list(visits(a_peer(), MINILM, (8,))) == []
    (visit,) = visits(a_peer(forms=(plain_json("/p"),)), MINILM, (1,))
    assert [form.kind for form in visit.forms] == ["json"]
    (visit,) = visits(a_peer(), RESNET50, (1,))
    assert [form.kind for form in visit.forms] == ["json", "binary"]


def test_a_later_turn_makes_only_the_loads_that_are_wanted() -> None:
    many, few = visits(a_peer(), MLP, (1, 8, 64))
    json, binary, _ = many.forms
    wanted = {many.load(json, 64), many.load(binary, 8), many.load(binary, 64)}
    later = many.only(wanted)
    assert later is not None
    assert [(form.kind, later.connections_of(form)) for form in later.forms] == [("json", (64,)), ("binary", (8, 64))]
    assert few.only(wanted) is None
    assert many.connections_of(json) == (1, 8, 64)


def test_large_models_are_loaded_longer_in_fewer_turns() -> None:
    nothing: Any = None
    load = Load(nothing, 2.0, 0.0, 1)
    assert (load.of(MLP).duration_s, load.of(RESNET50).duration_s) == (2.0, 3.0)
    assert load.of(MLP).ramp_s > load.of(RESNET50).ramp_s == 0
    assert [turns_for(model, turns) for model in ("mlp", "minilm") for turns in (1, 3)] == [1, 3, 1, 2]


def test_a_server_of_one_form_at_a_time_is_started_for_each() -> None:
    found = list(visits(a_peer(is_form_at_start=True), RESNET50, (1,)))
    assert [visit.form_name for visit in found] == ["JSON", "raw bytes"]
    assert str(found[1]) == "resnet50: Some, wide, raw bytes"


def test_large_models_are_not_asked_on_more_connections_than_fill_them() -> None:
    assert connections_for("mlp", (1, 8, 64)) == (1, 8, 64)
    assert connections_for("resnet50", (1, 8, 64)) == (1, 8)


def test_each_turn_begins_with_another_contender_and_visits_all() -> None:
    orders = [rotated(PEERS, turn) for turn in range(3)]
    assert len({order[0].name for order in orders}) == 3
    assert all(sorted(peer.name for peer in order) == sorted(BY_NAME) for order in orders)


ANSWERS: Mapping[str, tuple[Form, bytes]] = {
    "plain": (plain_json("/p"), b'{"output":[1.5,2.5]}'),
    "batch": (batch_json("/p"), b"[[1.5,2.5]]"),
    "bytes": (raw_bytes("/p"), np.array([1.5, 2.5], np.float32).tobytes()),
    "predict": (PREDICT, b'{"predictions":[[1.5,2.5]]}'),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_each_form_are_read(name: str) -> None:
    form, body = ANSWERS[name]
    assert form.values(Answer(body, None)).tolist() == [1.5, 2.5]


def test_an_image_goes_nested_in_plain_json_and_bare_in_bytes() -> None:
    image = RESNET50.sample(1)[0]
    asked = plain_json("/predictions/{model}").payload(RESNET50)
    assert asked.path == "/predictions/resnet50"
    assert json.loads(asked.body)["data"] == image.tolist()
    assert json.loads(batch_json("/p").payload(RESNET50).body)["data"] == [image.tolist()]
    assert raw_bytes("/p").payload(RESNET50).body == image.tobytes()


def test_a_float_is_written_as_people_write_it() -> None:
    numbers = json.loads(plain_json("/p").payload(MLP).body)["data"]
    assert all(len(str(number)) <= 8 for number in numbers)
    assert np.array_equal(np.array(numbers, np.float32), MLP.sample(1)[0])


def test_a_load_sends_the_whole_request_on_as_many_connections() -> None:
    plan = load_plan(V2_BINARY, MLP, ASSIGNMENT, 8, 2.5)
    head, _, body = plan.payloads[0].data.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: 127.0.0.1:1001\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert (plan.endpoint.port, plan.concurrency, plan.duration_ns) == (1001, 8, 2_500_000_000)


def test_over_grpc_each_connection_carries_one_call() -> None:
    plan = load_plan(GRPC, MLP, ASSIGNMENT, 8, 1.0)
    assert (plan.endpoint.protocol, plan.endpoint.port, plan.streams_per_connection) == ("grpc", 1002, 1)
    assert plan.payloads[0].path.endswith("/ModelInfer")


def test_a_peer_without_its_program_is_not_installed() -> None:
    with pytest.raises(NotInstalled, match="'no-such-program' is not installed"):
        environment_of(a_peer(programs=("no-such-program",)))


def test_a_peer_without_its_interpreter_is_not_installed() -> None:
    with pytest.raises(NotInstalled, match="it needs no-such-python"):
        environment_of(replace(BY_NAME["mosec"], python="no-such-python"))


def test_a_failure_is_told_once_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gathering = Gathering()
    broken, other = (
        Visit(model=MLP, peer=a_peer(title=title), setting=Setting(name=title), forms=(GRPC,), connections=(1,))
        for title in ("broken", "other")
    )
    asked: list[str] = []

    def failing(visit: Visit, environment: object) -> None:
        asked.append(visit.peer.title)
        raise contender.NotServing("it ended with 1")

    monkeypatch.setattr("benchmarks.comparisons.run.serving", failing)
    nothing: object = None
    for visit in (broken, broken, other):
        gathering.visit(visit, nothing, nothing, 0)  # type: ignore[arg-type]
    assert asked == ["broken", "other"]
    assert [failure.reason for failure in gathering.failures] == ["it ended with 1"] * 2


def test_a_form_that_fails_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gathering = Gathering()
    visit = Visit(model=MLP, peer=a_peer(), setting=Setting(name="s"), forms=a_peer().forms, connections=(1,))

    def measured(visit: Visit, form: Form, *others: object) -> list[LoadRecord]:
        if form.kind == "binary":
            raise AssertionError("a wrong answer")
        return [a_load("some", form=form.name)]

    monkeypatch.setattr("benchmarks.comparisons.run.measure_form", measured)
    nothing: Any = None
    for form in (*visit.forms, *visit.forms):
        gathering.load(visit, form, nothing, nothing, 0)
    assert [load.form for load in gathering.loads] == ["JSON", "gRPC"] * 2
    (failure,) = gathering.failures
    assert (failure.form, failure.reason) == ("raw bytes", "AssertionError: a wrong answer")


def test_triton_batches_only_where_the_setting_does() -> None:
    config = triton.model_config(ASSIGNMENT)
    assert "data_type: TYPE_FP32 dims: [ 30 ]" in config
    assert "instance_group [ { count: 2 kind: KIND_CPU } ]" in config
    assert "dynamic_batching" in config
    assert "dynamic_batching" not in triton.model_config(replace(ASSIGNMENT, max_batch_size=1))


def test_mlserver_batches_only_where_the_setting_does(tmp_path: Path) -> None:
    told = []
    for size in (64, 1):
        mlserver.prepare(replace(ASSIGNMENT, max_batch_size=size), tmp_path)
        told.append(msgspec.json.decode((tmp_path / "model-settings.json").read_bytes())["max_batch_size"])
    assert told == [64, 0]

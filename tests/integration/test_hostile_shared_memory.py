"""Shared memory between a real server and clients that mean it harm.

Whatever a client does to its object or says of it, the server answers that request and lives.
"""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services.callers import Call, call_together, one_input
from tests.services.onnx_models import identity, two_outputs, write_model
from tests.services.raw_http import RawClient, assert_alive, gauge, message
from tests.services.shared_objects import FOLDER, PREFIX, SharedObject, unique_name
from tests.services.waiting import wait_until

SLEEP = "tests/services/python_models.py:Sleep"
MIB = 1 << 20
SIZE = 4_096


@pytest.fixture(scope="module")
def model(models: Path) -> Path:
    return write_model(models / "ident", identity("FP32", ["n", "m"]))


@pytest.fixture(scope="module")
def running(serve: Serve, model: Path, models: Path) -> RunningServer:
    pair = write_model(models / "pair", two_outputs(2))
    return serve(f"ident={model}", f"pair={pair}", f"sleep={SLEEP}", "--allow-client-shm", PREFIX)


@pytest.fixture
def server(running: RunningServer) -> Iterator[RunningServer]:
    """Afterwards nothing is registered, held or broken."""
    yield running
    assert running.request("POST", "/v2/systemsharedmemory/unregister", b"").status == 200
    wait_until(lambda: gauge(running, "guepard_inflight_bytes") == 0)
    assert_alive(running)


@pytest.fixture
def piece() -> Iterator[SharedObject]:
    with SharedObject(SIZE) as piece:
        yield piece


def register(server: RunningServer, name: str, key: object, byte_size: object = SIZE, offset: object = 0) -> Answer:
    body = {"key": key, "offset": offset, "byte_size": byte_size}
    return server.request("POST", f"/v2/systemsharedmemory/region/{quote(name, safe='')}/register", body)


def unregister(server: RunningServer, name: str) -> None:
    assert server.request("POST", f"/v2/systemsharedmemory/region/{name}/unregister", b"").status == 200


def at(offset: object, size: object, region: object = "r") -> dict[str, Any]:
    return {"shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": size}


def shared_input(place: dict[str, Any], shape: list[int], datatype: str = "FP32") -> dict[str, Any]:
    return {"name": "x", "datatype": datatype, "shape": shape, "parameters": place}


def plain_input(*values: float) -> dict[str, Any]:
    return {"name": "x", "datatype": "FP32", "shape": [1, len(values)], "data": list(values)}


def refused(answer: Answer, status: int, *fragments: str) -> None:
    assert answer.status == status, answer.body
    text = answer.json["error"]
    for fragment in fragments:
        assert fragment in text
    assert str(FOLDER) not in text


# Off, and who may


SYSTEM = [
    ("GET", "/v2/systemsharedmemory/status"),
    ("GET", "/v2/systemsharedmemory/region/r/status"),
    ("POST", "/v2/systemsharedmemory/region/r/register"),
    ("POST", "/v2/systemsharedmemory/region/r/unregister"),
    ("POST", "/v2/systemsharedmemory/unregister"),
]


def test_it_is_off_unless_the_operator_says_otherwise(serve: Serve, model: Path, piece: SharedObject) -> None:
    off = serve(f"ident={model}")
    for method, path in SYSTEM:
        body = {"key": piece.key, "offset": 0, "byte_size": 8} if method == "POST" else None
        refused(off.request(method, path, body), 403, "--allow-client-shm")
    refused(off.infer("ident", {"inputs": [shared_input(at(0, 8), [1, 2])]}), 403, "--allow-client-shm")
    body = {"inputs": [plain_input(1, 2)], "outputs": [{"name": "y", "parameters": at(0, 8)}]}
    refused(off.infer("ident", body), 403, "--allow-client-shm")
    assert "system_shared_memory" not in off.request("GET", "/v2").json["extensions"]


def test_the_extension_is_listed_where_it_is_allowed(server: RunningServer) -> None:
    extensions = server.request("GET", "/v2").json["extensions"]
    assert "system_shared_memory" in extensions
    assert "cuda_shared_memory" not in extensions


@pytest.mark.parametrize(("method", "path"), SYSTEM)
def test_registering_is_management(server: RunningServer, method: str, path: str) -> None:
    request = message(method, path, b"{}" if method == "POST" else None, ["Origin: http://evil.example"])
    with RawClient(server.http_port) as client:
        assert client.ask(request).status == 403


@pytest.mark.parametrize(("method", "path"), SYSTEM)
def test_cuda_says_why_not(server: RunningServer, method: str, path: str) -> None:
    path = path.replace("system", "cuda")
    body = {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 8} if method == "POST" else None
    refused(server.request(method, path, body), 501, "CUDA shared memory is not served")


# Registering


def test_the_life_of_a_registration(server: RunningServer, piece: SharedObject) -> None:
    status = "/v2/systemsharedmemory/region/my%20region/status"
    refused(server.request("GET", status), 404, "'my region'")
    answer = register(server, "my region", f"/{piece.key}", 100, 8)
    assert (answer.status, answer.json) == (200, {})
    entry = {"name": "my region", "key": f"/{piece.key}", "offset": 8, "byte_size": 100}
    assert server.request("GET", status).json == [entry]
    refused(register(server, "my region", f"/{piece.key}", 100, 8), 400, "'my region' already in manager")
    assert register(server, "other", piece.key).status == 200
    assert len(server.request("GET", "/v2/systemsharedmemory/status").json) == 2
    unregister(server, "my%20region")
    unregister(server, "my%20region")
    assert [entry["name"] for entry in server.request("GET", "/v2/systemsharedmemory/status").json] == ["other"]


@pytest.mark.parametrize(
    ("key", "status", "reason"),
    [
        ("../etc/passwd", 400, "expected one name"),
        (f"{PREFIX}/../x", 400, "expected one name"),
        ("..", 400, "expected one name"),
        (f"{PREFIX}\0", 400, "expected one name"),
        (f"{PREFIX}{'a' * 300}", 400, "expected one name"),
        (7, 400, "expected the name of a shared memory object"),
        ("someone-else", 403, "--allow-client-shm"),
        ("sem.lock", 403, "--allow-client-shm"),
        (f"{PREFIX}missing", 400, "no such shared memory object"),
    ],
)
def test_keys_that_lead_elsewhere(server: RunningServer, key: object, status: int, reason: str) -> None:
    refused(register(server, "r", key, 1), status, reason)


def test_links_and_folders_are_no_objects(server: RunningServer) -> None:
    path = FOLDER / unique_name()
    path.symlink_to("/etc/passwd")
    try:
        refused(register(server, "r", path.name, 1), 400, "not a shared memory object")
    finally:
        path.unlink()
    path.mkdir()
    try:
        refused(register(server, "r", path.name, 1), 400, "not a shared memory object")
    finally:
        path.rmdir()


@pytest.mark.parametrize(
    ("offset", "byte_size"),
    [
        (-1, 8),
        (0.5, 8),
        (True, 8),
        ("0", 8),
        (None, 8),
        (2**63, 8),
        (0, -1),
        (0, 0),
        (0, 1e3),
        (0, SIZE + 1),
        (1, SIZE),
    ],
)
def test_numbers_that_no_object_holds(
    server: RunningServer, piece: SharedObject, offset: object, byte_size: object
) -> None:
    refused(register(server, "r", piece.key, byte_size, offset), 400)
    assert server.request("GET", "/v2/systemsharedmemory/status").json == []


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"{", b'{"key":1}'])
def test_bodies_that_register_nothing(server: RunningServer, body: bytes) -> None:
    refused(server.request("POST", "/v2/systemsharedmemory/region/r/register", body), 400)


def test_names_that_no_region_has(server: RunningServer, piece: SharedObject) -> None:
    for name in ("a\n", "x" * 300):
        refused(register(server, name, piece.key), 400, "region name")


def test_registrations_are_bounded_and_descriptors_come_back(server: RunningServer, piece: SharedObject) -> None:
    folder = f"/proc/{server.process.pid}/fd"
    before = len(os.listdir(folder))
    body = json.dumps({"key": piece.key, "offset": 0, "byte_size": 8}).encode()
    with RawClient(server.http_port) as client:
        registered = 0
        for number in range(1_025):
            path = f"/v2/systemsharedmemory/region/{number}/register"
            answer = client.ask(message("POST", path, body))
            if answer.status != 200:
                break
            registered += 1
        assert answer.status == 429
        assert 0 < registered <= 1_024
        assert client.ask(message("POST", "/v2/systemsharedmemory/unregister", b"")).status == 200
        for _ in range(200):
            assert client.ask(message("POST", "/v2/systemsharedmemory/region/r/register", body)).status == 200
            assert client.ask(message("POST", "/v2/systemsharedmemory/region/r/unregister", b"")).status == 200
    wait_until(lambda: len(os.listdir(folder)) <= before)


# Inference


@pytest.mark.parametrize(
    ("place", "shape", "status", "reasons"),
    [
        (at(0, 8, "gone"), [1, 2], 404, ["no shared memory region 'gone' is registered"]),
        (at(0, 7), [1, 2], 400, ["takes 8 bytes, shared_memory_byte_size is 7"]),
        (at(0, 8), [1, 3], 400, ["takes 12 bytes, shared_memory_byte_size is 8"]),
        (at(SIZE, 8), [1, 2], 400, ["region 'r' has 4096 bytes"]),
        (at(SIZE - 4, 8), [1, 2], 400, ["8 bytes at offset 4092 lie outside it"]),
        (at(2**63 - 1, 8), [1, 2], 400, ["region 'r' has 4096 bytes"]),
        (at(-8, 8), [1, 2], 400, ["inputs[0].parameters.shared_memory_offset", "got -8"]),
        (at(0.0, 8), [1, 2], 400, ["inputs[0].parameters.shared_memory_offset"]),
        (at(True, 8), [1, 2], 400, ["inputs[0].parameters.shared_memory_offset"]),
        (at(2**64, 8), [1, 2], 400, ["inputs[0].parameters.shared_memory_offset"]),
        (at(0, "8"), [1, 2], 400, ["inputs[0].parameters.shared_memory_byte_size"]),
        (at(0, 8, 7), [1, 2], 400, ["inputs[0].parameters.shared_memory_region"]),
        ({"shared_memory_byte_size": 8}, [1, 2], 400, ["shared_memory_region: missing"]),
        ({"shared_memory_region": "r"}, [1, 2], 400, ["shared_memory_byte_size: missing"]),
    ],
)
def test_inputs_that_lie_nowhere(
    server: RunningServer, piece: SharedObject, place: dict[str, Any], shape: list[int], status: int, reasons: list[str]
) -> None:
    assert register(server, "r", piece.key).status == 200
    refused(server.infer("ident", {"inputs": [shared_input(place, shape)]}), status, *reasons)


def test_data_comes_one_way_only(server: RunningServer, piece: SharedObject) -> None:
    assert register(server, "r", piece.key).status == 200
    given = plain_input(1, 2) | {"parameters": at(0, 8)}
    refused(server.infer("ident", {"inputs": [given]}), 400, "input 'x': both data and shared_memory_region")


@pytest.mark.parametrize(
    ("place", "status", "reasons"),
    [
        (at(0, 8, "gone"), 404, ["'gone'"]),
        (at(8, 7), 400, ["output 'y' takes 8 bytes, shared_memory_byte_size is 7"]),
        (at(SIZE - 4, 8), 400, ["region 'r' has 4096 bytes"]),
        (at(-1, 8), 400, ["outputs[0].parameters.shared_memory_offset", "got -1"]),
        (at(0, 2**64), 400, ["outputs[0].parameters.shared_memory_byte_size"]),
    ],
)
def test_outputs_that_fit_nowhere(
    server: RunningServer, piece: SharedObject, place: dict[str, Any], status: int, reasons: list[str]
) -> None:
    assert register(server, "r", piece.key).status == 200
    piece.put(b"\xaa" * SIZE)
    body = {"inputs": [plain_input(1, 2)], "outputs": [{"name": "y", "parameters": place}]}
    refused(server.infer("ident", body), status, *reasons)
    assert piece.get(SIZE + 1) == b"\xaa" * SIZE


def test_of_two_outputs_none_is_written_unless_both_fit(server: RunningServer, piece: SharedObject) -> None:
    assert register(server, "r", piece.key).status == 200
    given = {"name": "x", "datatype": "INT64", "shape": [1, 2], "data": [1, 2]}
    for first, second, status in ((16, 7, 400), (15, 8, 400), (16, 8, 200)):
        outputs = [
            {"name": "negated", "parameters": at(0, first)},
            {"name": "total", "parameters": at(64, second)},
        ]
        answer = server.infer("pair", {"inputs": [given], "outputs": outputs})
        assert answer.status == status
        assert (piece.get(SIZE) == bytes(SIZE)) is (status == 400)
    assert np.frombuffer(piece.get(16), np.int64).tolist() == [-1, -2]
    assert np.frombuffer(piece.get(8, 64), np.int64).tolist() == [3]


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_an_object_cut_short_costs_one_request(server: RunningServer, large: bool) -> None:
    """Triton maps the object, and the kernel ends whoever touches what is no longer there."""
    size = 6 * MIB if large else SIZE
    shape = [1, size // 4]
    with SharedObject(size) as source, SharedObject(size) as target:
        assert register(server, "r", source.key, size).status == 200
        assert register(server, "w", target.key, size).status == 200
        body = {
            "inputs": [shared_input(at(0, size), shape)],
            "outputs": [{"name": "y", "parameters": at(0, size, "w")}],
        }
        assert server.infer("ident", body).status == 200
        source.truncate(8)
        refused(server.infer("ident", body), 400, "region 'r'", "truncated to 8 bytes")
        source.truncate(2 * size)
        target.truncate(0)
        refused(server.infer("ident", body), 400, "region 'w'", "truncated to 0 bytes")
        assert target.path.stat().st_size == 0
        target.truncate(2 * size)
        assert server.infer("ident", body).status == 200
        refused(server.infer("ident", {"inputs": [shared_input(at(0, size + 4), [1, size // 4 + 1])]}), 400, "outside")


@pytest.mark.timeout(60)
def test_an_object_that_keeps_changing_its_size_ends_nothing(server: RunningServer) -> None:
    """Each request gets its answer or a 400; mapped memory would end the server within a few of them."""
    size = 8 * MIB
    ended = threading.Event()
    with SharedObject(size) as piece:

        def shake() -> None:
            while not ended.is_set():
                piece.truncate(0)
                piece.truncate(size)

        assert register(server, "r", piece.key, size).status == 200
        body = {
            "inputs": [shared_input(at(0, size // 2), [1, size // 8])],
            "outputs": [{"name": "y", "parameters": at(size // 2, size // 2)}],
        }
        thread = threading.Thread(target=shake)
        thread.start()
        try:
            statuses = {server.infer("ident", body).status for _ in range(30)}
        finally:
            ended.set()
            thread.join()
    assert statuses <= {200, 400}


def test_a_name_taken_away_and_a_client_that_crashed_change_nothing(server: RunningServer) -> None:
    with SharedObject(SIZE) as piece:
        piece.put(np.array([1, 2], np.float32).tobytes())
        assert register(server, "r", piece.key).status == 200
    answer = server.infer("ident", {"inputs": [shared_input(at(0, 8), [1, 2])]})
    assert answer.json["outputs"][0]["data"] == [1, 2]


def test_shared_memory_counts_among_the_bytes_of_a_request(server: RunningServer) -> None:
    size = 130 * MIB  # of zeros that take no memory
    with SharedObject(size) as piece:
        assert register(server, "r", piece.key, size).status == 200
        body = {"inputs": [shared_input(at(0, size), [1, size // 4])]}
        refused(server.infer("ident", body), 413, "max_request_bytes")


def test_large_tensors_come_and_go_beside_the_loop(server: RunningServer) -> None:
    count = 5 * MIB
    array = np.random.default_rng(0).random((1, count), np.float32)
    with SharedObject(8 * count) as piece:
        piece.put(array.tobytes())
        assert register(server, "r", piece.key, 8 * count).status == 200
        body = {
            "inputs": [shared_input(at(0, 4 * count), [1, count])],
            "outputs": [{"name": "y", "parameters": at(4 * count, 4 * count)}],
            "id": "7",
        }
        answer = server.infer("ident", body)
        assert answer.status == 200, answer.body
        assert answer.headers["guepard-model-version"] == "1"
        output = {"name": "y", "datatype": "FP32", "shape": [1, count], "parameters": at(4 * count, 4 * count)}
        assert answer.json == {"model_name": "ident", "model_version": "1", "id": "7", "outputs": [output]}
        assert piece.get(4 * count, 4 * count) == array.tobytes()
        body["outputs"] = [{"name": "y", "parameters": at(4 * count, 4 * count - 1)}]
        refused(server.infer("ident", body), 400, f"takes {4 * count} bytes", f"is {4 * count - 1}")
        body["inputs"] = [shared_input(at(0, 4 * count), [1, 1, count])]
        refused(server.infer("ident", body), 400, "input 'x': expected shape")


def test_a_client_that_leaves_while_its_tensors_are_read(server: RunningServer) -> None:
    size = 100 * MIB
    with SharedObject(size) as piece:
        assert register(server, "r", piece.key, size).status == 200
        body = json.dumps({"inputs": [shared_input(at(0, size), [1, size // 4])]}).encode()
        for _ in range(3):
            with RawClient(server.http_port) as client:
                client.send(message("POST", "/v2/models/ident/infer", body))
                client.reset()


# Other requests


def test_more_rows_than_a_batch_come_together_in_one_region(server: RunningServer, piece: SharedObject) -> None:
    array = np.arange(400, dtype=np.float32).reshape(200, 2)
    piece.put(array.tobytes())
    assert register(server, "r", piece.key).status == 200
    outputs = [{"name": "y", "parameters": at(2_000, 1_600)}]
    answer = server.infer("ident", {"inputs": [shared_input(at(0, 1_600), [200, 2])], "outputs": outputs})
    assert answer.json["outputs"][0]["shape"] == [200, 2]
    assert piece.get(1_600, 2_000) == array.tobytes()


def test_a_request_that_has_read_goes_on_without_its_region(server: RunningServer, piece: SharedObject) -> None:
    piece.put(np.array([400], np.int32).tobytes())
    assert register(server, "r", piece.key).status == 200
    assert register(server, "w", piece.key).status == 200
    inputs = [shared_input(at(0, 4), [1, 1], "INT32")]
    bodies = [
        {"inputs": inputs},
        {"inputs": inputs, "outputs": [{"name": "y", "parameters": at(64, 4, "w")}]},
        {"inputs": inputs, "outputs": [{"name": "y", "parameters": at(128, 4, "r")}]},
    ]
    answers: dict[int, Answer] = {}

    def ask(number: int) -> None:
        answers[number] = server.infer("sleep", bodies[number])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: gauge(server, 'guepard_executing_requests{model="sleep",version="1"}') > 0)
    wait_until(
        lambda: (
            gauge(server, 'guepard_executing_requests{model="sleep",version="1"}')
            + gauge(server, 'guepard_queue_depth{model="sleep",version="1"}')
            == 3
        )
    )
    unregister(server, "r")
    for thread in threads:
        thread.join()
    assert answers[0].json["outputs"][0]["data"] == [400]
    assert answers[1].status == 200
    refused(answers[2], 404, "'r'")
    assert np.frombuffer(piece.get(4, 64), np.int32).tolist() == [400]
    assert piece.get(4, 128) == bytes(4)


def test_requests_of_one_batch_write_to_their_own_places(server: RunningServer, piece: SharedObject) -> None:
    assert register(server, "r", piece.key).status == 200
    count = 8
    calls = [Call("sleep", one_input("INT32", [150]))]
    for number in range(count):
        place = at(16 * number, 3 if number == 4 else 4)
        outputs = [{"name": "y", "parameters": place}]
        calls.append(Call("sleep", one_input("INT32", [number + 1]) | {"outputs": outputs}, delay_s=0.05))
    replies = call_together(server, calls)[1:]
    assert [reply.status for reply in replies] == [200] * 4 + [400] + [200] * 3
    expected = np.zeros(4 * count, np.int32)
    expected[::4] = [1, 2, 3, 4, 0, 6, 7, 8]
    assert piece.get(16 * count) == expected.tobytes()

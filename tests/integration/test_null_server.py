"""The null server answers every request once, however it is sent, and is never left behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from guepard.measure.load.null_server import NullServer
from tests.services.raw_http import RawClient, message
from tests.services.waiting import wait_until

BODY = b'{"inputs": []}'
REQUEST = message("POST", "/v2/models/m/infer", BODY)

PARENT = """
import os, sys
from guepard.measure.load.null_server import NullServer
server = NullServer()
server.__enter__()
print(server.pid, flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[NullServer]:
    with NullServer() as server:
        yield server


def is_running(pid: int) -> bool:
    """A zombie that nobody has waited for has ended too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_answers_request_after_request(server: NullServer) -> None:
    with RawClient(server.port) as client:
        for request in (REQUEST, REQUEST, message("GET", "/"), REQUEST, message("POST", "/", b"x" * 200_000)):
            answer = client.ask(request)
            assert (answer.status, answer.body) == (200, b"{}")


def test_a_request_in_pieces_gets_one_answer(server: NullServer) -> None:
    with RawClient(server.port) as client:
        client.ask(REQUEST)
        for cut in (1, 10, REQUEST.index(b"\r\n\r\n") + 2, len(REQUEST) - len(BODY), len(REQUEST) - 1):
            client.send_each((REQUEST[:cut], REQUEST[cut:]))
            assert client.answer().status == 200
        client.finish_sending()
        assert client.rest() == b""


def test_requests_sent_together_get_an_answer_each(server: NullServer) -> None:
    with RawClient(server.port) as client:
        client.send(REQUEST * 50 + REQUEST[:30])
        client.send(REQUEST[30:])
        client.finish_sending()
        assert client.rest().count(b"HTTP/1.1 200 OK") == 51


def test_a_client_that_reads_late_loses_nothing() -> None:
    count = 2_000
    with NullServer(body_bytes=4_096) as server:
        with RawClient(server.port, receive_buffer=65_536) as client, RawClient(server.port) as other:
            client.send(REQUEST * count)
            assert other.ask(REQUEST).status == 200
            client.finish_sending()
            assert client.rest().count(b"HTTP/1.1 200 OK") == count
        report = server.stop()
    assert report is not None
    assert report.answered == count + 1
    assert report.cpu_s > 0


def test_many_connections_at_once(server: NullServer) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(server.port)) for _ in range(300)]
        for client in clients:
            client.send(REQUEST)
        assert {client.answer().status for client in clients} == {200}


def test_neither_garbage_nor_a_reset_stops_it(server: NullServer) -> None:
    with RawClient(server.port) as client:
        client.send(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert client.rest() == b""
    with RawClient(server.port) as client:
        client.send(REQUEST * 100)
        client.reset()
    with RawClient(server.port) as client:
        assert client.ask(REQUEST).status == 200


def test_it_ends_with_its_context_and_says_what_it_did() -> None:
    with NullServer(body_bytes=100) as server:
        pid = server.pid
        with RawClient(server.port) as client:
            assert len(client.ask(REQUEST).body) == 100
        report = server.stop()
        assert report is not None
        assert report.answered == 1
        assert server.stop() is None
    assert not is_running(pid)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.host, server.port), 5.0)


@pytest.mark.parametrize("number", [None, signal.SIGKILL], ids=["leaves without stopping it", "is killed"])
def test_it_does_not_outlive_its_parent(number: int | None) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    if number is not None:
        os.kill(parent.pid, number)
    parent.communicate(timeout=10.0)
    wait_until(lambda: not is_running(pid))


def test_ctrl_c_is_left_to_the_parent() -> None:
    with NullServer() as server:
        os.kill(server.pid, signal.SIGINT)
        with RawClient(server.port) as client:
            assert client.ask(REQUEST).status == 200
        assert server.stop() is not None


def test_one_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(OSError, match="did not start"):
        NullServer().__enter__()

"""Load over gRPC on servers of gRPC's own library, and on Guepard."""

import signal
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import pytest

from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.grpc_client import GrpcClient
from guepard.measure.load.journal import Journal
from guepard.measure.load.outcomes import GRPC_BASE, End, outcome_name
from guepard.measure.load.plan import Arrivals, Endpoint, LoadPlan, Payload, PayloadOrder, ReplyRule, UniqueSpot
from guepard.measure.load.records import COLUMNS, UNIQUE, Column, Gaps, Records
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.driving import drive
from tests.services.grpc_calls import INFER, infer_message
from tests.services.grpc_methods import SERVICE, GrpcMethods, grpc_methods
from tests.services.onnx_models import double, write_model
from tests.services.waiting import wait_until

SECOND = 1_000_000_000
OK = GRPC_BASE
SLEEP = "sleep=tests/services/python_models.py:Sleep"


class Collected:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.timings: list[bytes] = []
        self.connects = self.handshakes = 0
        self._parts: list[Records] = []

    def begin(self, start_ns: int) -> None:
        self._parts.clear()

    def add_records(self, records: Records) -> None:
        self._parts.append(records)

    def add_gaps(self, gaps: Gaps) -> None:
        raise AssertionError("nothing streams here")

    def add_turns(self, turns_ns: Column) -> None:
        assert (turns_ns >= 0).all()

    def add_connects(self, connects_ns: Column) -> None:
        self.connects += len(connects_ns)

    def add_handshakes(self, handshakes_ns: Column) -> None:
        self.handshakes += len(handshakes_ns)

    def add_timings(self, timings: list[bytes]) -> None:
        self.timings += timings

    @property
    def records(self) -> Records:
        return Records(*(np.concatenate([getattr(part, name) for part in self._parts]) for name in COLUMNS))


def method(name: str, data: bytes = b"12345678", spot: UniqueSpot | None = None) -> Payload:
    return Payload(data=data, path=f"/{SERVICE}/{name}", spot=spot)


def plan(port: int, *payloads: Payload, **changes: object) -> LoadPlan:
    values: dict[str, object] = {
        "endpoint": Endpoint(protocol="grpc", host="127.0.0.1", port=port),
        "payloads": payloads or (method("Echo"),),
        "duration_ns": 10 * SECOND,
        "timeout_ns": 10 * SECOND,
    }
    return LoadPlan(**(values | changes))  # type: ignore[arg-type]


def carry_out(wanted: LoadPlan) -> tuple[Records, Journal]:
    """In this process."""
    return drive(wanted, GrpcClient)


def ends(records: Records) -> Counter[str]:
    return Counter(map(outcome_name, records.outcome.tolist()))


@pytest.fixture(scope="module")
def methods() -> Iterator[GrpcMethods]:
    with grpc_methods() as server:
        yield server


@pytest.fixture(scope="module")
def generator() -> Iterator[LoadGenerator]:
    with LoadGenerator(2) as generator:
        yield generator


def test_processes_share_an_open_loop(methods: GrpcMethods, generator: LoadGenerator) -> None:
    sink = Collected()
    wanted = plan(
        methods.port,
        method("Echo", spot=UniqueSpot(offset=0, width=8, form="digits")),
        arrivals=Arrivals(kind="constant", rate=500.0),
        order=PayloadOrder(kind="unique"),
        duration_ns=SECOND,
    )
    generator.run(wanted, sink)
    assert ends(sink.records) == {"gRPC OK": 500}
    assert (sink.records.flags & UNIQUE).all()
    assert 2 <= sink.connects <= 4


@pytest.mark.parametrize(("each", "connections"), [(0, 2), (1, 12)])
def test_processes_share_the_calls_of_a_closed_loop(
    methods: GrpcMethods, generator: LoadGenerator, each: int, connections: int
) -> None:
    sink = Collected()
    generator.run(plan(methods.port, concurrency=12, requests=1_001, streams_per_connection=each), sink)
    assert ends(sink.records) == {"gRPC OK": 1_001}
    assert sink.connects == connections


def test_every_status_is_told(methods: GrpcMethods) -> None:
    payloads = [method("Status", b"%d" % code) for code in range(1, 17)]
    records, journal = carry_out(plan(methods.port, *payloads, concurrency=4, requests=160))
    assert (records.outcome == GRPC_BASE + 1 + records.payload).all()
    assert len(set(records.outcome.tolist())) == 16
    assert len(journal.connects) == 1


def test_a_method_that_is_unknown_is_unimplemented(methods: GrpcMethods) -> None:
    records, _ = carry_out(plan(methods.port, method("Nothing"), concurrency=1, requests=3))
    assert ends(records) == {"gRPC UNIMPLEMENTED": 3}


@pytest.mark.parametrize("size", [0, 16_384 - 5, 70_000, 4_000_000])
def test_messages_of_any_length_pass_both_ways(methods: GrpcMethods, size: int) -> None:
    payloads = method("Echo", bytes(size)), method("Large", b"%d" % (2 * size))
    records, _ = carry_out(plan(methods.port, *payloads, concurrency=3, requests=8))
    assert ends(records) == {"gRPC OK": 8}
    least = np.where(records.payload == 0, size, 2 * size)
    assert (records.received_bytes > least).all()
    assert (records.received_bytes < least * 1.01 + 300).all()


def test_two_hundred_calls_at_once_on_one_connection() -> None:
    with grpc_methods() as server:
        server.gate = 200
        wanted = plan(server.port, method("Gate"), concurrency=200, requests=1_000, streams_per_connection=200)
        records, journal = carry_out(wanted)
        assert server.most == 200
    assert ends(records) == {"gRPC OK": 1_000}
    assert len(journal.connects) == 1


def test_calls_that_last_too_long_are_given_up_and_their_neighbours_are_not() -> None:
    with grpc_methods() as server:
        payloads = method("Sleep", b"1"), method("Sleep", b"5000"), method("Echo")
        records, journal = carry_out(plan(server.port, *payloads, concurrency=6, requests=60, timeout_ns=SECOND // 5))
        late = records.payload == 1
        assert ends(Records(*(getattr(records, name)[~late] for name in COLUMNS))) == {"gRPC OK": 40}
        assert set(records.outcome[late].tolist()) <= {End.TIMED_OUT, GRPC_BASE + 4}
        assert (records.latency_ns[late] >= 0.19 * SECOND).all()
        assert (records.latency_ns[late] < SECOND).all()
        wait_until(lambda: server.cancelled == 20)
    assert len(journal.connects) <= 2


def test_a_server_that_restarts_is_found_again_and_what_it_took_is_answered() -> None:
    with grpc_methods() as first:
        found: list[Records] = []
        wanted = plan(
            first.port,
            method("Sleep", b"20"),
            arrivals=Arrivals(kind="constant", rate=80.0),
            duration_ns=5 * SECOND // 2,
            timeout_ns=3 * SECOND,
        )
        thread = threading.Thread(target=lambda: found.append(carry_out(wanted)[0]))
        thread.start()
        wait_until(lambda: first.calls >= 60)
        stopped_ns = time.monotonic_ns()
        first.stop(grace_s=2.0)
    with grpc_methods(first.port):
        thread.join()
    (records,) = found
    assert len(records) == 200
    taken = records.sent_ns < stopped_ns - 10_000_000
    assert taken.sum() >= 50
    assert (records.outcome[taken] == OK).all()
    assert (records.outcome[np.argsort(records.intended_ns)][-20:] == OK).all()


def test_timings_that_differ_are_kept_of_a_share_of_the_answers(methods: GrpcMethods) -> None:
    records, journal = carry_out(plan(methods.port, method("Timed"), concurrency=2, requests=160))
    assert ends(records) == {"gRPC OK": 160}
    assert len(journal.timings) == len(set(journal.timings)) == 10
    assert all(timing.startswith(b"total;dur=") for timing in journal.timings)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=models.test", "-addext", "subjectAltName=DNS:models.test"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return folder / "certificate.pem"


def test_calls_over_tls(certificate: Path) -> None:
    key = certificate.with_name("key.pem").read_bytes()
    with grpc_methods(credentials=grpc.ssl_server_credentials([(key, certificate.read_bytes())])) as server:

        def outcome(**tls: object) -> Counter[str]:
            endpoint = Endpoint(protocol="grpc", host="127.0.0.1", port=server.port, tls=True, **tls)  # type: ignore[arg-type]
            payloads = method("Echo", bytes(100_000)), method("Large", b"300000")
            records, journal = carry_out(plan(1, *payloads, endpoint=endpoint, concurrency=4, requests=8))
            if (records.outcome == OK).all():
                assert len(journal.handshakes) == len(journal.connects) == 1
            return ends(records)

        assert outcome(ca_file=str(certificate), host_name="models.test") == {"gRPC OK": 8}
        assert outcome(insecure=True) == {"gRPC OK": 8}
        assert outcome() == {"TLS failed": 8}
        assert outcome(ca_file=str(certificate), host_name="another.test") == {"TLS failed": 8}
        plaintext = carry_out(plan(server.port, concurrency=1, requests=2))[0]
        assert set(ends(plaintext)) <= {"malformed answer", "connection reset"}


def test_tls_without_http2_behind_it_fails(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def shake_hands() -> None:
            connection, _ = listener.accept()
            with suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)

        thread = threading.Thread(target=shake_hands)
        thread.start()
        endpoint = Endpoint(protocol="grpc", host="127.0.0.1", port=listener.getsockname()[1], tls=True, insecure=True)
        records, _ = carry_out(plan(1, endpoint=endpoint, concurrency=1, requests=1))
        thread.join()
    assert ends(records) == {"TLS failed": 1}


# Guepard


def infer(model: str) -> Payload:
    return Payload(data=infer_message(model, "FP32", [1, 1], np.float32(1.5).tobytes()), path=INFER)


def test_guepard_answers_and_tells_its_phases(serve: Serve, models: Path, generator: LoadGenerator) -> None:
    server = serve(f"double={write_model(models / 'double.onnx', double(1))}")
    sink = Collected()
    wanted = plan(
        server.grpc_port, infer("double"), infer("none"), concurrency=8, requests=640, reply=ReplyRule(expect="double")
    )
    generator.run(wanted, sink)
    assert ends(sink.records) == {"gRPC OK": 320, "gRPC NOT_FOUND": 320}
    assert len(sink.timings) in (19, 20)  # of each process, one in sixteen answers
    assert all(b";dur=" in timing for timing in sink.timings)
    quiet = Collected()
    generator.run(plan(server.grpc_port, infer("double"), concurrency=8, requests=640, server_timing=False), quiet)
    assert ends(quiet.records) == {"gRPC OK": 640}
    assert quiet.timings == []
    wrong = Collected()
    rule = ReplyRule(expect="treble")
    generator.run(plan(server.grpc_port, infer("double"), concurrency=2, requests=20, reply=rule), wrong)
    assert ends(wrong.records) == {"unexpected content": 20}


def test_a_guepard_that_is_told_to_stop_answers_what_it_took() -> None:
    message = infer_message("sleep", "INT32", [1, 1], np.array([100], np.int32).tobytes())
    with RunningServer(SLEEP) as server:
        sink, told = Collected(), threading.Event()

        def tick() -> bool:
            if told.is_set():
                return False
            server.process.send_signal(signal.SIGTERM)
            told.set()
            return True

        with LoadGenerator(1) as one:
            one.run(plan(server.grpc_port, Payload(data=message, path=INFER), concurrency=4), sink, tick)
        assert server.process.wait(10.0) == 0
    outcomes = ends(sink.records)
    assert outcomes["gRPC OK"] >= 1
    assert set(outcomes) <= {"gRPC OK", "connection refused", "gRPC UNAVAILABLE"}

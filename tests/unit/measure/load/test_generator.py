"""Generator processes and threads that carry out plans."""

import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest

from guepard.measure.load.client import Client, Slot
from guepard.measure.load.frames import Frame, FrameReader, Share, frame
from guepard.measure.load.generator import GeneratorFailed, LoadGenerator, within_files
from guepard.measure.load.in_process_client import Done
from guepard.measure.load.in_process_generator import InProcessGenerator
from guepard.measure.load.null_server import NullServer
from guepard.measure.load.outcomes import End
from guepard.measure.load.plan import Arrivals, Endpoint, LoadPlan, Payload, PayloadOrder, UniqueSpot
from guepard.measure.load.records import COLUMNS, UNIQUE, Column, Gaps, Records
from guepard.measure.load.worker import Worker
from tests.services.waiting import wait_until

SECOND = 1_000_000_000
DATA = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n00000000"


class Collected:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.start_ns = 0
        self.turns = 0
        self.connects = 0
        self._parts: list[Records] = []

    def begin(self, start_ns: int) -> None:
        self.start_ns = start_ns

    def add_records(self, records: Records) -> None:
        self._parts.append(records)

    def add_gaps(self, gaps: Gaps) -> None:
        raise AssertionError("nothing streams here")

    def add_turns(self, turns_ns: Column) -> None:
        assert (turns_ns >= 0).all()
        self.turns += len(turns_ns)

    def add_connects(self, connects_ns: Column) -> None:
        self.connects += len(connects_ns)

    def add_handshakes(self, handshakes_ns: Column) -> None:
        raise AssertionError("nothing is encrypted here")

    def add_timings(self, timings: list[bytes]) -> None:
        raise AssertionError("the null server tells no timing")

    @property
    def records(self) -> Records:
        return Records(*(np.concatenate([getattr(part, name) for part in self._parts]) for name in COLUMNS))


def plan(port: int, **changes: object) -> LoadPlan:
    values: dict[str, object] = {
        "endpoint": Endpoint(protocol="http", host="127.0.0.1", port=port),
        "payloads": (Payload(data=DATA, spot=UniqueSpot(offset=len(DATA) - 8, width=8, form="digits")),),
        "duration_ns": SECOND,
        "timeout_ns": 5 * SECOND,
    }
    return LoadPlan(**(values | changes))  # type: ignore[arg-type]


def test_processes_share_an_open_loop_and_send_each_request_once() -> None:
    with NullServer() as server, LoadGenerator(2) as generator:
        for number in range(2):
            sink = Collected()
            wanted = plan(
                server.port,
                arrivals=Arrivals(kind="constant", rate=2_000.0),
                order=PayloadOrder(kind="unique"),
                first_number=number * 2_000,
            )
            usages, was_interrupted = generator.run(wanted, sink)
            assert not was_interrupted
            records = sink.records
            assert len(records) == 2_000
            assert set(records.outcome.tolist()) == {200}
            due = np.sort(records.intended_ns - sink.start_ns)
            assert np.abs(due - np.arange(2_000) * (SECOND // 2_000)).max() <= 1
            assert (records.flags & UNIQUE).all()
            assert sink.turns > 0
            assert sink.connects >= 2
            assert len(usages) == 2
            assert all(0 < usage.cpu_ns < usage.wall_ns for usage in usages)


def test_processes_share_the_connections_and_the_requests_of_a_closed_loop() -> None:
    with NullServer() as server, LoadGenerator(2) as generator:
        sink = Collected()
        generator.run(plan(server.port, concurrency=5, requests=1_001), sink)
    assert len(sink.records) == 1_001
    assert sink.connects == 5


def test_more_processes_than_connections_leave_some_idle() -> None:
    with NullServer() as server, LoadGenerator(3) as generator:
        sink = Collected()
        usages, _ = generator.run(plan(server.port, concurrency=1, requests=50), sink)
    assert len(sink.records) == 50
    assert len(usages) == 1


def test_a_tick_that_says_no_ends_the_sending_and_keeps_what_was_measured() -> None:
    began = time.monotonic()
    with NullServer() as server, LoadGenerator(1) as generator:
        sink = Collected()
        wanted = plan(server.port, arrivals=Arrivals(kind="constant", rate=500.0), duration_ns=60 * SECOND)
        generator.run(wanted, sink, lambda: time.monotonic() - began < 1.0)
    assert 0 < len(sink.records) < 60 * 500
    assert time.monotonic() - began < 20


def test_an_interrupt_ends_the_sending_and_what_is_under_way_still_comes() -> None:
    with NullServer() as server, LoadGenerator(1) as generator:
        sink = Collected()

        def interrupt() -> bool:
            raise KeyboardInterrupt

        wanted = plan(server.port, arrivals=Arrivals(kind="constant", rate=500.0), duration_ns=60 * SECOND)
        ticks: list[Callable[[], bool]] = [interrupt]
        (usage,), was_interrupted = generator.run(wanted, sink, lambda: ticks.pop()() if ticks else True)
        assert was_interrupted
        assert usage.wall_ns < 20 * SECOND
        assert len(sink.records) > 0
        again = Collected()
        generator.run(plan(server.port, concurrency=1, requests=10), again)
        assert len(again.records) == 10


def test_an_interrupt_that_comes_with_the_start_is_heard() -> None:
    """STOP may reach a process in the same read as START, and is not to be read again then."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        wanted = plan(server.getsockname()[1], arrivals=Arrivals(kind="constant", rate=10.0), duration_ns=60 * SECOND)
        ours, theirs = socket.socketpair()
        client = ClientThatIsNone()
        with ours, theirs:
            thread = threading.Thread(target=run_worker, args=(theirs, client))
            thread.start()
            ours.sendall(frame(Frame.PLAN, msgspec.msgpack.encode((wanted, Share(0, 1)))))
            reader, kinds = FrameReader(), []
            start = frame(Frame.START, str(time.monotonic_ns()).encode())
            ours.settimeout(30)
            while Frame.ENDED not in kinds:
                found = [kind for kind, _ in reader.read(ours)]
                if Frame.READY in found:
                    ours.sendall(start + frame(Frame.STOP))
                kinds += found
            ours.shutdown(socket.SHUT_RDWR)
            thread.join(30)
            assert not thread.is_alive()
    assert Frame.ROWS not in kinds
    assert client.sent == 0


class ClientThatIsNone:
    sent = 0

    def open_slot(self) -> Slot:
        self.sent += 1
        raise AssertionError("nothing should be sent")

    def close(self) -> None:
        pass


def run_worker(control: socket.socket, client: Client) -> None:
    with suppress(EOFError, ConnectionError):
        Worker(control, lambda plan, owner: client).run()


def test_a_process_without_descriptors_gives_up_instead_of_calling_the_server_unreachable() -> None:
    with NullServer() as server, LoadGenerator(1) as generator:
        (pid,) = generator.pids
        generator.run(plan(server.port, concurrency=1, requests=1), Collected())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (16, 16))
        with pytest.raises(GeneratorFailed, match="ulimit -n"):
            generator.run(plan(server.port, concurrency=64), Collected())


def test_a_process_may_open_as_many_descriptors_as_the_system_allows() -> None:
    with NullServer() as server, LoadGenerator(1) as generator:
        generator.run(plan(server.port, concurrency=1, requests=1), Collected())
        soft, hard = resource.prlimit(generator.pids[0], resource.RLIMIT_NOFILE)
    assert soft == hard


def test_a_generator_process_that_dies_is_told(tmp_path: Path) -> None:
    with NullServer() as server, LoadGenerator(1) as generator:
        (process,) = generator._processes

        def kill() -> bool:
            process.kill()
            return True

        with pytest.raises(GeneratorFailed, match="ended in the middle"):
            generator.run(plan(server.port, concurrency=1, duration_ns=30 * SECOND), Collected(), kill)


def test_a_name_that_does_not_resolve_is_told() -> None:
    endpoint = Endpoint(protocol="http", host="no-such-host.invalid", port=80)
    with LoadGenerator(1) as generator, pytest.raises(GeneratorFailed):
        generator.run(plan(1, endpoint=endpoint, concurrency=1), Collected())


def test_generator_processes_end_with_their_parent() -> None:
    code = (
        "import time\n"
        "from guepard.measure.load.generator import LoadGenerator\n"
        "with LoadGenerator(2) as generator:\n"
        "    print(*[process.pid for process in generator._processes], flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = [int(word) for word in parent.stdout.readline().split()]
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert len(children) == 2
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), 20.0)


def test_frames_do_not_depend_on_the_cuts() -> None:
    sent = [(Frame.ROWS, b"x" * 1_000), (Frame.STOP, b""), (Frame.ENDED, b"abc")]
    data = b"".join(frame(kind, body) for kind, body in sent)
    for step in (1, 3, 7, 500, len(data)):
        reader = FrameReader()
        found = [each for begin in range(0, len(data), step) for each in reader.feed(data[begin : begin + step])]
        assert found == sent


def test_inferences_of_this_process_are_driven_the_same_way() -> None:
    def submit(payload: int, done: Done) -> None:
        outcome = End.FAILED if payload == 1 else End.DONE
        threading.Timer(0.02, done, (outcome,)).start()

    sink = Collected()
    with InProcessGenerator(submit) as generator:
        wanted = plan(1, payloads=(Payload(data=b""), Payload(data=b"")), concurrency=4, requests=40)
        (usage,), _ = generator.run(wanted, sink)
    records = sink.records
    assert np.bincount(records.outcome).tolist() == [20] + [0] * 9 + [20]
    assert (records.latency_ns >= 0.02 * SECOND).all()
    assert usage.cpu_ns > 0


def test_an_inference_that_is_too_late_is_given_up_once() -> None:
    late: list[Done] = []

    def submit(payload: int, done: Done) -> None:
        late.append(done)

    sink = Collected()
    with InProcessGenerator(submit) as generator:
        generator.run(plan(1, concurrency=1, requests=2, timeout_ns=SECOND // 10), sink)
        for done in late:
            done(End.DONE)
    assert sink.records.outcome.tolist() == [End.TIMED_OUT] * 2


def test_no_descriptor_is_left_of_a_run_in_this_process() -> None:
    with InProcessGenerator(lambda payload, done: done(End.DONE)) as generator:
        generator.run(plan(1, concurrency=1, requests=5), Collected())
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            generator.run(plan(1, concurrency=1, requests=5), Collected())
        # The last run's client may still be there.
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_connections_are_bounded_by_the_files_that_a_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64, 64))
    plan = LoadPlan(
        endpoint=Endpoint(protocol="http", host="localhost", port=1),
        payloads=(Payload(data=DATA),),
        duration_ns=SECOND,
        max_connections=300,
    )
    assert within_files(plan, 1).max_connections == 32
    assert within_files(plan, 10) == plan
    with pytest.raises(GeneratorFailed, match=r"300 callers need .* 64 files here; raise that with ulimit -Hn"):
        within_files(msgspec.structs.replace(plan, concurrency=300), 1)


def test_an_interrupt_in_the_middle_of_the_sinks_work_leaves_it_whole() -> None:
    class Interrupted(Collected):
        """Ctrl-C comes with the first records."""

        came = 0

        def add_records(self, records: Records) -> None:
            is_first, self.came = not self.came, self.came + len(records)
            if is_first:
                signal.raise_signal(signal.SIGINT)
            super().add_records(records)

    sink = Interrupted()
    with InProcessGenerator(lambda payload, done: done(End.DONE)) as generator:
        carried = generator.run(plan(1, concurrency=1, duration_ns=30 * SECOND), sink)
    assert carried.was_interrupted
    assert len(sink.records) == sink.came
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

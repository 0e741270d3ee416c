"""Executions share the gate, a capture has it alone."""

import threading

from guepard.backends.capture_gate import CaptureGate

PATIENCE_S = 30.0


def test_executions_share_it() -> None:
    gate = CaptureGate()
    with gate.shared(), gate.shared():
        pass


def test_a_capture_waits_for_what_runs_and_holds_up_what_comes() -> None:
    gate = CaptureGate()
    order: list[str] = []
    waits = threading.Event()

    def capture() -> None:
        waits.set()
        with gate.alone():
            order.append("capture")

    def execute() -> None:
        with gate.shared():
            order.append("execution")

    with gate.shared():
        capturing = threading.Thread(target=capture)
        capturing.start()
        assert waits.wait(PATIENCE_S)
        while not gate._captures:
            pass
        later = threading.Thread(target=execute)
        later.start()
        assert order == []
    capturing.join(PATIENCE_S)
    later.join(PATIENCE_S)
    assert order == ["capture", "execution"]


def test_captures_take_turns_and_leave_it_open() -> None:
    gate = CaptureGate()
    inside, most = 0, 0
    lock = threading.Lock()

    def capture() -> None:
        nonlocal inside, most
        for _ in range(50):
            with gate.alone():
                with lock:
                    inside += 1
                    most = max(most, inside)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=capture) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert most == 1
    with gate.shared():
        pass


def test_a_failure_inside_opens_it_again() -> None:
    gate = CaptureGate()
    for way in (gate.shared, gate.alone):
        try:
            with way():
                raise RuntimeError
        except RuntimeError:
            pass
    with gate.alone():
        pass

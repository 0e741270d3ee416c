"""Minutes of a model in processes that are killed now and then: each answer is its caller's own, memory stays flat."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import guepard
from guepard.engine.processes.process_state import ProcessState
from tests.services.processes import children_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SOAK_S = 60
CALLERS = 16
FILE = Path(__file__).parent.parent / "services" / "python_models.py"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def shared_mib(pid: int) -> float:
    """Of shared memory that the process has mapped and that is in use."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) / 1_024
    raise AssertionError("no RssShmem")


def test_random_sizes_many_callers_and_kills() -> None:
    answers = 0
    failures: list[str] = []
    wrong: list[str] = []
    held: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    stop = threading.Event()

    def call(number: int) -> None:
        nonlocal answers
        rng = random.Random(number)
        generator = np.random.default_rng(number)
        while not stop.is_set():
            width = rng.choice((1, 7, 1_000, 1_100, 40_000, rng.randrange(1, 300_000)))
            x = generator.random((rng.randrange(1, 4), width), np.float32)
            try:
                y = model.infer({"x": x})["y"]
            except guepard.ModelError as error:
                failures.append(str(error))
                continue
            answers += 1
            if not np.array_equal(x, y):
                wrong.append(f"{x.shape}")
            old = held.get(number)
            if old is not None and not np.array_equal(*old):
                wrong.append("a kept answer has changed")
            if rng.random() < 0.1:
                held[number] = (x, y)

    group = {"execution": "process", "count": 2}
    with guepard.load(f"{FILE}:ReturnsItsBuffer", instance_group=group, idempotent=False) as model:
        threads = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
        for thread in threads:
            thread.start()
        kills = 0
        end = time.monotonic() + SOAK_S
        sizes, counts, shared = [], [], []
        own = ProcessState(os.getpid())
        try:
            while time.monotonic() < end:
                time.sleep(3)
                sizes.append(own.private_bytes())
                counts.append(descriptors())
                shared.append(max([shared_mib(pid) for pid in children_of(os.getpid())], default=0.0))
                victims = children_of(os.getpid())
                if kills < 8 and len(sizes) % 2 == 0 and victims:
                    os.kill(random.choice(victims), signal.SIGKILL)
                    kills += 1
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert not wrong
    assert answers > 1_000
    assert kills >= 5
    assert len(failures) <= kills * CALLERS
    assert all("was killed by SIGKILL" in text for text in failures)
    assert max(sizes) - sizes[2] < 300 * 2**20
    assert max(counts) - counts[2] < 40
    assert max(shared) < 512
    assert not children_of(os.getpid())

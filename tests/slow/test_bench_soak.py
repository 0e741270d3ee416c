"""A minute of load: what the generator and its parent take, and whether requests leave later and later."""

import re
from pathlib import Path
from statistics import median

import pytest

from tests.services.bench_command import BenchCommand, codes
from tests.services.known_behaviours import Sleep
from tests.services.known_servers import KnownServer
from tests.services.waiting import wait_until

LAG = re.compile(r"send lag p99 ([\d.,]+) ms")
AFTER_A_WHILE = re.compile(r"open loop 1\d of 60 s")
NEAR_THE_END = re.compile(r"open loop 5\d of 60 s")
GROWTH_BYTES = 48 << 20
"""Of what is written down, some megabytes; ten times as much would be requests that are kept one by one."""


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4_096


@pytest.mark.slow
def test_a_minute_of_load_takes_no_more_at_its_end() -> None:
    load = ("--rate", "1000", "--duration", "60s", "--no-self-test", "--json")
    with KnownServer(Sleep(ms=20)) as server, BenchCommand(server.url, "--protocol", "http", *load) as command:
        wait_until(lambda: AFTER_A_WHILE.search(command.said()) is not None, 40.0)
        generators = [*command.children()]
        before = [resident_bytes(pid) for pid in (command.pid, *generators)]
        wait_until(lambda: NEAR_THE_END.search(command.said()) is not None, 70.0)
        after = [resident_bytes(pid) for pid in (command.pid, *generators)]
        lags = [float(lag.replace(",", "")) for lag in LAG.findall(command.said())]
        result = command.ending()
    assert all(late - early < GROWTH_BYTES for early, late in zip(before, after, strict=True)), (before, after)
    assert len(lags) > 10
    third = len(lags) // 3
    assert median(lags[-third:]) < 3 * median(lags[:third]) + 2
    run = result.run
    assert run.latency.count == run.offered
    assert run.errors == ()
    assert 950 * (run.window.end_s - run.window.start_s) < run.offered < 1_050 * 60
    assert not codes(run) & {"overloaded", "generator-shortfall", "server-died"}

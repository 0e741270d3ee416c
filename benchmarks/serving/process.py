"""What a process tree costs, and whether the machine is quiet enough for a measurement.

All figures come from /proc. CPU is user + system time, to a clock tick (10 ms); measure over seconds.
"""

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
QUIET_CORES = 0.15
"""Work of strangers, in cores, from which on a measurement is distrusted."""

T = TypeVar("T")


class ProcessStat(NamedTuple):
    pid: int
    parent: int
    cpu_ticks: int
    """Own time and that of children it has waited for, so that a tree's sum loses nobody."""
    started_ticks: int
    """Since boot."""
    state: str
    """Z: it has ended, and its parent has not noticed."""


def read_stat(pid: int) -> ProcessStat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command's name in parentheses and may hold spaces and parentheses itself.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(pid, int(fields[1]), sum(map(int, fields[11:15])), int(fields[19]), fields[0])


def process_tree(root: int) -> list[ProcessStat]:
    """The process and its living descendants; empty once it has ended."""
    found = [read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    processes = {stat.pid: stat for stat in found if stat is not None}

    def descends(stat: ProcessStat | None) -> bool:
        while stat is not None and stat.pid != root:
            stat = processes.get(stat.parent)
        return stat is not None

    return [stat for stat in processes.values() if descends(stat)]


def cpu_seconds(root: int) -> float:
    return sum(stat.cpu_ticks for stat in process_tree(root)) / TICKS_PER_SECOND


class Memory(NamedTuple):
    """Of a process tree, resident."""

    rss_bytes: int
    """Pages that its processes share count once for each."""
    pss_bytes: int
    """Such pages are divided among those that share them, whoever they are."""
    processes: int


def memory(root: int) -> Memory:
    """Of the tree. A process that ends meanwhile counts for nothing."""
    rss = pss = count = 0
    for stat in process_tree(root):
        try:
            rollup = Path(f"/proc/{stat.pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        sizes = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB$", rollup, re.MULTILINE))
        rss += int(sizes.get("Rss", 0)) * 1024
        pss += int(sizes.get("Pss", 0)) * 1024
        count += 1
    return Memory(rss, pss, count)


def rss_bytes(root: int) -> int:
    """Resident memory of the tree. Pages that its processes share count once for each."""
    return memory(root).rss_bytes


def busy_seconds() -> float:
    """CPU time that all cores have spent since boot, time stolen by the hypervisor included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND


def children_seconds() -> float:
    """CPU time of this process and of the children it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@dataclass(frozen=True, slots=True)
class Observation:
    """What the machine did while one action ran."""

    wall_s: float
    server_cpu_s: float
    client_cpu_s: float
    other_cores: float
    """Cores kept busy by neither side: doubt the measurement when this is not near 0."""

    @property
    def is_quiet(self) -> bool:
        return self.other_cores <= QUIET_CORES

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "is_quiet": self.is_quiet}


def observe(action: Callable[[], T], server: int | None = None, clients: Sequence[int] = ()) -> tuple[T, Observation]:
    """Run `action`, whose children are the client, against the process tree of `server`.

    `clients` are processes of the client that live on when it has returned.
    """

    def client_seconds() -> float:
        return children_seconds() + sum(map(cpu_seconds, clients))

    started, busy, client = time.monotonic(), busy_seconds(), client_seconds()
    served = cpu_seconds(server) if server is not None else 0.0
    result = action()
    served = (cpu_seconds(server) if server is not None else 0.0) - served
    wall, client = time.monotonic() - started, client_seconds() - client
    other = (busy_seconds() - busy - served - client) / wall
    return result, Observation(wall, served, client, max(0.0, other))


def observe_quietly(
    action: Callable[[], T],
    server: int | None = None,
    attempts: int = 3,
    *,
    clients: Sequence[int] = (),
    patience_s: float = 20.0,
) -> tuple[T, Observation]:
    """`observe`, again while strangers disturb it; the least disturbed of `attempts` when all of them are."""
    outcomes = []
    for _ in range(attempts):
        wait_quiet(server, patience_s=patience_s)
        outcomes.append(observe(action, server, clients))
        if outcomes[-1][1].is_quiet:
            break
    return min(outcomes, key=lambda outcome: outcome[1].other_cores)


def wait_quiet(server: int | None = None, window_s: float = 0.3, patience_s: float = 20.0) -> None:
    """Wait until strangers have left the machine idle for a window; go on all the same when patience ends.

    What the process tree of `server` does of its own accord is no reason to wait.
    """
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        _, seen = observe(lambda: time.sleep(window_s), server)
        if seen.is_quiet:
            return

"""How many requests can one generator process send, how punctually, and what does wrk take for the same?

Against the null server, which answers as fast as plain Python can, on a core of its own; the generator is pinned to
another. Closed loop: both sides send the same request over the same number of connections and take turns; the median of
the turns is told, and the ratio is taken within a turn. wrk's rate is partly the null server's: where that is busy all
the time, only the generator's CPU per request compares. Open loop: Poisson arrivals; how late requests leave.

    python -m benchmarks.micro.load_generator
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.null_server import NullServer
from guepard.measure.load.plan import Arrivals, Endpoint, LoadPlan, Payload
from guepard.measure.observation import Observation

TURNS = 5
SECONDS = 3
CONNECTIONS = (1, 8, 64)
RATES = (1_000, 5_000, 20_000)
BODY = b"x" * 100
REQUEST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + BODY


class Speed(NamedTuple):
    rate: float
    cpu_us: float


def plan(port: int, **load: object) -> LoadPlan:
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=port)
    return LoadPlan(
        endpoint=endpoint,
        payloads=(Payload(data=REQUEST),),
        duration_ns=SECONDS * 1_000_000_000,
        **load,  # type: ignore[arg-type]
    )


def by_guepard(generator: LoadGenerator, port: int, connections: int) -> Speed:
    seen = Observation()
    (usage,), _ = generator.run(plan(port, concurrency=connections), seen)
    return Speed(seen.count / SECONDS, usage.cpu_ns / seen.count / 1_000)


def by_wrk(port: int, connections: int) -> Speed:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "post.lua")
        script.write_text(f'wrk.method = "POST"\nwrk.body = "{BODY.decode()}"\n')
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "-s", script, f"http://127.0.0.1:{port}/"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    requests = int(re.search(r"(\d+) requests in", output)[1])  # type: ignore[index]
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Speed(requests / SECONDS, cpu_s / requests * 1e6)


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with NullServer() as server, LoadGenerator(1) as generator:
        os.sched_setaffinity(server.pid, cores[:1])
        os.sched_setaffinity(generator.pids[0], cores[-1:])
        os.sched_setaffinity(0, cores[-1:])  # wrk inherits it
        print(f"{'closed loop':14}{'guepard':>12}{'wrk':>12}{'guepard':>12}{'wrk':>10}{'of wrk':>10}")
        print(f"{'connections':14}{'requests/s':>12}{'requests/s':>12}{'CPU µs':>12}{'CPU µs':>10}{'CPU':>10}")
        for connections in CONNECTIONS:
            turns = [
                (by_guepard(generator, server.port, connections), by_wrk(server.port, connections))
                for _ in range(TURNS)
            ]
            ours, theirs = ([turn[side] for turn in turns] for side in (0, 1))
            ratio = median(our.cpu_us / their.cpu_us for our, their in turns)
            print(
                f"{connections:<14}{median(speed.rate for speed in ours):12,.0f}"
                f"{median(speed.rate for speed in theirs):12,.0f}{median(speed.cpu_us for speed in ours):12.1f}"
                f"{median(speed.cpu_us for speed in theirs):10.1f}{ratio:8.2f} ×"
            )
        print(f"\n{'open loop':14}{'sent':>12}{'lag p50':>12}{'lag p99':>12}{'CPU µs':>12}")
        for rate in RATES:
            seen = Observation()
            arrivals = Arrivals(kind="poisson", rate=float(rate))
            (usage,), _ = generator.run(plan(server.port, arrivals=arrivals), seen)
            lag = seen.tally.window(0, SECONDS).send_lag
            print(
                f"{f'{rate:,} a second':14}{seen.count:12,}{lag.quantile(0.5) / 1e6:9.3f} ms"
                f"{lag.quantile(0.99) / 1e6:9.3f} ms{usage.cpu_ns / seen.count / 1_000:12.1f}"
            )
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""One closed-loop load by `wrk`: a child process, one thread, the same request again and again on each connection."""

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

from benchmarks.serving.payload import Payload

SCRIPT = """\
local file = io.open({body}, "rb")
wrk.method, wrk.body = "POST", file:read("*a")
file:close()
{headers}
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'REPORT {{"requests":%d,"duration_us":%d,"p50_us":%d,"p90_us":%d,"p99_us":%d,"bad_status":%d,"failed":%d}}\\n',
    summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(90), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
"""

ARRIVALS_SCRIPT = """
local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long ns; } timespec; int clock_gettime(int, timespec *);")
local now = ffi.new("timespec")
function response(status)
  ffi.C.clock_gettime(1, now)
  if status == 200 then io.write(string.format("ARRIVAL %.6f\\n", tonumber(now.s) + tonumber(now.ns) / 1e9)) end
end
"""
"""Prints the monotonic time of each good answer: for slow models only, as it costs wrk more than the request does."""

REPORT = re.compile(r"^REPORT (\{.*\})$", re.MULTILINE)
ARRIVAL = re.compile(r"^ARRIVAL (\S+)$", re.MULTILINE)
SETTLE_S = 1.0


class LoadError(RuntimeError):
    """wrk is missing, or it printed no report."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    connections: int
    requests: int
    """Answers of status below 400."""
    errors: int
    """Other answers, failed connections and time-outs."""
    requests_per_second: float
    p50_us: int
    p90_us: int
    p99_us: int


def run_load(
    port: int,
    payload: Payload,
    connections: int,
    seconds: int,
    prefix: tuple[str, ...] = (),
    *,
    steady: bool = False,
) -> LoadResult:
    """Send `payload` on `connections` connections for `seconds`; `prefix` is a command to run wrk under.

    `steady`: tell the rate of the steady state (see `steady_rate`) instead of answers over time.
    Raises: LoadError.
    """
    if shutil.which("wrk") is None:
        raise LoadError("the load client `wrk` is not installed; run `apt-get install wrk`")
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        body, script = Path(folder, "body"), Path(folder, "load.lua")
        body.write_bytes(payload.body)
        headers = "\n".join(
            f"wrk.headers[{lua_string(name)}] = {lua_string(value)}" for name, value in payload.headers.items()
        )
        text = SCRIPT.format(body=lua_string(str(body)), headers=headers)
        script.write_text(text + ARRIVALS_SCRIPT if steady else text)
        command = [*prefix, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout=30s", f"--script={script}"]
        url = f"http://127.0.0.1:{port}{payload.path}"
        wrk = subprocess.run([*command, url], capture_output=True, text=True, check=False)
    report = REPORT.search(wrk.stdout)
    if report is None:
        raise LoadError(f"wrk ended with {wrk.returncode} and no report: {(wrk.stderr or wrk.stdout)[-300:]}")
    counts: dict[str, int] = json.loads(report[1])
    good = counts["requests"] - counts["bad_status"]
    arrivals = [float(time) for time in ARRIVAL.findall(wrk.stdout)]
    return LoadResult(
        connections=connections,
        requests=good,
        errors=counts["bad_status"] + counts["failed"],
        requests_per_second=steady_rate(arrivals) if steady else good / counts["duration_us"] * 1e6,
        p50_us=counts["p50_us"],
        p90_us=counts["p90_us"],
        p99_us=counts["p99_us"],
    )


def steady_rate(arrivals: list[float]) -> float:
    """Answers per second once the load has settled: the slope of the line through (time, answers so far).

    Answers of a batch arrive together, so a count over a few seconds is wrong by the batches that its end cuts off,
    always downwards: by 7 % for two batches of 16 under way after 4 s at 60 answers/s. The slope has no such bias.

    Raises: LoadError when fewer than two answers came after the first second.
    """
    settled = [time for time in arrivals if time - arrivals[0] >= SETTLE_S]
    if len(set(settled)) < 2:
        raise LoadError(f"only {len(arrivals)} answers came, too few for a rate; load for longer")
    return linear_regression(settled, range(len(settled))).slope


def lua_string(text: str) -> str:
    """`text` as a Lua literal. JSON's escapes for quotes, backslashes and line ends are Lua's too."""
    return json.dumps(text, ensure_ascii=False)

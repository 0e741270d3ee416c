"""From what was asked for to plans of load."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from guepard.bench.scenarios import SCENARIOS, Scenario
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.core.errors import ConfigurationError
from guepard.measure.load.generator import within_files
from guepard.measure.load.plan import Arrivals, LoadPlan, PayloadOrder
from guepard.settings.bench_options import BenchOptions

_NS = 1_000_000_000
_ACCESS_LOG = "guepard.access"
_TIME_FIELDS = ("ts", "time", "timestamp", "@timestamp")


def base_plan(options: BenchOptions, prepared: PreparedTarget, processes: int) -> LoadPlan:
    """Everything but when requests are sent: neither arrivals nor a concurrency yet."""
    load = options.load
    plan = LoadPlan(
        endpoint=prepared.endpoint,
        payloads=prepared.payloads,
        order=order_of(options, prepared),
        requests=load.requests or 0,
        duration_ns=int(options.duration),
        timeout_ns=int(options.request.timeout),
        max_connections=load.connections,
        processes=processes,
        reply=prepared.reply,
        seed=load.seed,
        is_head=prepared.is_head,
    )
    return within_files(plan, processes)


def order_of(options: BenchOptions, prepared: PreparedTarget) -> PayloadOrder:
    """What was asked for. Otherwise nothing is sent twice, lest a cache answers; but samples are sent as they are."""
    inputs = options.load.inputs
    if inputs is not None:
        return PayloadOrder(kind=inputs.kind, exponent=inputs.exponent)
    request = options.request
    is_given = any(each is not None for each in (request.data, request.body, request.curl, request.openapi))
    is_made = not is_given and any(payload.spot for payload in prepared.payloads)
    return PayloadOrder(kind="unique" if is_made else "cycle")


def open_loop(plan: LoadPlan, arrivals: Arrivals, duration_s: float | None = None) -> LoadPlan:
    duration_ns = plan.duration_ns if duration_s is None else int(duration_s * _NS)
    return msgspec.structs.replace(plan, arrivals=arrivals, concurrency=0, duration_ns=duration_ns)


def closed_loop(plan: LoadPlan, concurrency: int, duration_s: float | None = None) -> LoadPlan:
    duration_ns = plan.duration_ns if duration_s is None else int(duration_s * _NS)
    return msgspec.structs.replace(
        plan,
        arrivals=None,
        concurrency=concurrency,
        duration_ns=duration_ns,
        max_connections=max(plan.max_connections, concurrency),
    )


def arrivals_at(options: BenchOptions, rate: float) -> Arrivals:
    """Raises: ConfigurationError for a trace that cannot be read."""
    pattern = options.load.arrivals
    if pattern.file is not None:
        return Arrivals(kind="trace", times_ns=read_trace(Path(pattern.file)))
    return Arrivals(
        kind=pattern.kind, rate=rate, end_rate=float(pattern.end_rate or 0.0), burst_size=pattern.burst_size
    )


def scenario_of(options: BenchOptions) -> Scenario | None:
    name = options.question.scenario
    return SCENARIOS[name] if name is not None else None


def rows_of(options: BenchOptions) -> int:
    """Of each request: a scenario may say how many, otherwise the user."""
    scenario = scenario_of(options)
    return scenario.rows if scenario is not None and scenario.rows else options.request.batch


def read_trace(path: Path) -> tuple[int, ...]:
    """Times of requests in nanoseconds, the first at 0: a number of seconds per line, or an access log in JSON lines.

    Raises: ConfigurationError that names the line.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigurationError(f"--arrivals trace:{path}: it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--arrivals trace:{path}: not UTF-8 at byte {error.start}; write text") from None
    told = (
        _time_s(line, f"--arrivals trace:{path}: line {number}") for number, line in enumerate(lines, 1) if line.strip()
    )
    times = [time for time in told if time is not None]
    if not times:
        raise ConfigurationError(f"--arrivals trace:{path}: no times in it; write seconds, one a line")
    times.sort()
    return tuple(round((time - times[0]) * _NS) for time in times)


def _time_s(line: str, where: str) -> float | None:
    """None for a line of Guepard's own log that is no request."""
    try:
        value = json.loads(line)
    except ValueError:
        value = line.strip()
    if isinstance(value, Mapping):
        if value.get("logger", _ACCESS_LOG) != _ACCESS_LOG:
            return None
        value = next((value[name] for name in _TIME_FIELDS if name in value), None)
        if value is None:
            raise ConfigurationError(f"{where}: no field {', '.join(_TIME_FIELDS)} in it")
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12:
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        raise ConfigurationError(f"{where}: expected seconds or a time such as 2026-01-31T12:00:00Z") from None

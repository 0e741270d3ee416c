"""Results as `guepard bench` would write them, of simulated requests: one of each kind that a person may see."""

from collections.abc import Callable, Sequence
from functools import cache
from math import sqrt
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from guepard.measure import results
from guepard.measure.hdr_format import encode
from guepard.measure.histogram import Histogram

Array = NDArray[np.float64]

PERCENTS = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
URL = "http://127.0.0.1:8000/v2/models/resnet/infer"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[2J\u202e&amp;</script><!--"


def latency_of(ms: Array, worth: float = 1.0) -> results.Latency:
    """The distribution of `ms`, whose samples count for `worth` independent ones each."""
    ordered = np.sort(ms)
    count = len(ordered)
    effective = round(count * worth)
    return results.Latency(
        count=count,
        effective_count=effective,
        mean_ms=float(ordered.mean()) if count else 0.0,
        min_ms=float(ordered[0]) if count else 0.0,
        max_ms=float(ordered[-1]) if count else 0.0,
        percentiles=tuple(_percentile(ordered, effective, percent) for percent in PERCENTS) if count else (),
        histogram=encode(Histogram.of((ordered * 1e6).astype(np.int64))),
    )


def _percentile(ordered: Array, effective: int, percent: float) -> results.Percentile:
    share = percent / 100
    spread = 1.96 * sqrt(share * (1 - share) / max(effective, 1))
    count = len(ordered)

    def at(level: float) -> float | None:
        return float(ordered[min(int(level * count), count - 1)]) if 0 <= level < 1 else None

    needed = round(10 / (1 - share))
    value = at(share)
    assert value is not None
    return results.Percentile(
        percent=percent,
        value_ms=value,
        low_ms=at(share - spread),
        high_ms=at(share + spread),
        is_supported=effective >= needed,
        needed=needed,
    )


def a_run(
    name: str = "run",
    *,
    seed: int = 1,
    rate: float = 1000.0,
    duration_s: float = 30.0,
    median_ms: float = 12.0,
    sigma: float = 0.25,
    stalls: bool = True,
    failing: Sequence[tuple[int, str, float, float]] = (),
    stream: bool = False,
    closed: bool = False,
    warm_up_s: float = 4.0,
    server: bool = True,
    **changes: Any,
) -> results.Run:
    """One run of Poisson arrivals. `failing` is (outcome, its name, share of requests, latency in ms)."""
    random = np.random.default_rng(seed)
    end_s = warm_up_s + duration_s
    at_s = np.sort(random.uniform(0, end_s, random.poisson(rate * end_s)))
    ms = random.lognormal(np.log(median_ms), sigma, len(at_s))
    ms *= 1 + 3 * np.exp(-at_s / max(warm_up_s / 4, 1e-9))
    if stalls:
        since = at_s % 10.0
        ms += np.where(since < 0.12, (0.12 - since) * 1000, 0.0)
    kind = np.full(len(at_s), -1)
    for index, (_, _, share, its_ms) in enumerate(failing):
        chosen = (kind < 0) & (random.uniform(size=len(at_s)) < share)
        kind[chosen] = index
        ms[chosen] = its_ms * random.lognormal(0, 0.1, int(chosen.sum()))
    lag_ms = random.lognormal(np.log(0.04), 0.6, len(at_s))
    measured = (at_s >= warm_up_s) & (at_s < end_s)
    good = measured & (kind < 0)
    succeeded, offered = int(good.sum()), int(measured.sum())
    shed = sum(int((measured & (kind == index)).sum()) for index, each in enumerate(failing) if each[0] in (429, 503))
    first_ms = ms[good] * 0.3
    run = results.Run(
        name=name,
        started_s=0.0,
        load=results.Load(
            loop="closed" if closed else "open",
            arrivals="closed loop" if closed else "poisson",
            rate=None if closed else rate,
            concurrency=16 if closed else None,
            duration_s=duration_s,
            requests=0,
            timeout_s=30.0,
            max_connections=1024,
            processes=1,
            seed=seed,
        ),
        is_valid=True,
        findings=(),
        window=results.Window(start_s=warm_up_s, end_s=end_s, warm_up="found by change point of p99"),
        steadiness=results.Steadiness(
            is_steady=True, throughput_spread=0.012, latency_spread=0.048, drift=-0.011, says="steady"
        ),
        offered=offered,
        succeeded=succeeded,
        failed=offered - succeeded,
        shed=shed,
        offered_rate=offered / duration_s,
        sent_rate=offered / duration_s * 0.9996,
        throughput=results.Estimate(
            value=succeeded / duration_s,
            low=(succeeded - 1.96 * sqrt(succeeded)) / duration_s,
            high=(succeeded + 1.96 * sqrt(succeeded)) / duration_s,
        ),
        goodput=float((good & (ms <= 50)).sum()) / duration_s,
        mean_in_flight=float(ms[good].sum()) / 1000 / duration_s,
        repeat_share=0.0,
        received_bytes_per_s=succeeded / duration_s * 4200,
        latency=latency_of(ms[good], 0.8),
        service=latency_of(ms[good] - np.minimum(lag_ms[good], ms[good] / 2), 0.8),
        first=latency_of(first_ms, 0.8) if stream else None,
        between=latency_of(random.lognormal(np.log(8), 0.2, succeeded * 4)) if stream else None,
        pieces_per_s=succeeded * 24 / duration_s if stream else None,
        errors=tuple(
            results.ErrorCount(
                outcome=outcome,
                name=text,
                count=int((measured & (kind == index)).sum()),
                latency=latency_of(ms[measured & (kind == index)]),
            )
            for index, (outcome, text, _, _) in enumerate(failing)
        ),
        slices=_slices(at_s, ms, kind, end_s, [text for _, text, _, _ in failing]),
        generator=results.GeneratorReport(
            processes=1,
            cpu_s=duration_s * 0.11,
            cpu_share=0.11,
            cpu_us_per_request=0.11e6 / rate,
            runqueue_wait_share=0.004,
            send_lag=latency_of(lag_ms),
            loop_lag=latency_of(random.lognormal(np.log(0.06), 0.5, 4000)),
            connections_opened=24,
            connect=latency_of(random.lognormal(np.log(0.2), 0.3, 24)),
            tls=None,
            blocked_share=0.0,
            priority=0,
            self_test_rate=61_300.0,
        ),
        server=_server(float(ms[good].mean())) if server and succeeded else None,
    )
    return msgspec.structs.replace(run, **changes)


def _slices(
    at_s: Array, ms: Array, kind: NDArray[np.int64], end_s: float, names: list[str]
) -> tuple[results.Slice, ...]:
    width = 0.5
    ends_s = at_s + ms / 1000
    found = []
    for start in np.arange(0, end_s, width):
        due = (at_s >= start) & (at_s < start + width)
        over = (ends_s >= start) & (ends_s < start + width)
        values = ms[due & (kind < 0)]
        points = np.percentile(values, (50, 90, 99)).tolist() if len(values) else (None, None, None)
        found.append(
            results.Slice(
                start_s=float(start),
                end_s=float(start + width),
                offered=int(due.sum()),
                succeeded=int((over & (kind < 0)).sum()),
                failed={name: int((over & (kind == index)).sum()) for index, name in enumerate(names)},
                p50_ms=points[0],
                p90_ms=points[1],
                p99_ms=points[2],
                max_ms=float(values.max()) if len(values) else None,
                in_flight=int(((at_s < start + width) & (ends_s >= start + width)).sum()),
            )
        )
    return tuple(found)


def _server(mean_ms: float) -> results.ServerView:
    shares = {"decode": 0.02, "queue": 0.24, "input": 0.01, "compute": 0.62, "output": 0.01, "encode": 0.02}
    return results.ServerView(
        phases=tuple(
            results.ServerPhase(name=name, mean_ms=mean_ms * share, source="server-timing")
            for name, share in shares.items()
        ),
        unexplained_ms=mean_ms * (1 - sum(shares.values())),
        statistics={"inference_count": 30_041, "execution_count": 7_120},
        metrics={"guepard_queue_depth": 3.0},
        cpu_us_per_request=412.0,
        batch_size=4.22,
        cache_hit_share=0.0,
        unavailable={"metrics of the process": "connection refused"},
    )


def a_document(*runs: results.Run, **changes: Any) -> results.Document:
    document = results.Document(
        created="2026-03-01T12:00:00Z",
        command=("guepard", "bench", URL, "--rate", "1000", "--duration", "30s"),
        guepard="0.1.0",
        versions={"python": "3.11.7 (cpython)", "numpy": "2.4.6", "msgspec": "0.23.0"},
        commit="598a652c10815737066ffb621e4e91598a67e474-dirty",
        machine=results.Machine(
            cpu="AMD EPYC", cores=8, cpu_budget=8.0, memory_bytes=34_359_738_368, system="Linux 6.1.0 x86_64"
        ),
        targets=(a_target(),),
        payloads=results.PayloadReport(
            source="made from the model's metadata",
            count=256,
            mean_bytes=602_112.0,
            sha256="5f70bf18a086007016e948b04aed3b82" * 2,
            order="unique",
        ),
        slo=None,
        runs=runs,
    )
    return msgspec.structs.replace(document, **changes)


def a_target(url: str = URL) -> results.Target:
    return results.Target(
        url=url, protocol="oip-http", model="resnet", model_version="1", server="guepard 0.1.0", same_machine=True
    )


@cache
def valid() -> results.Document:
    return a_document(
        a_run(findings=(_shared(),)),
        gates=(
            results.Gate(
                name="p99", baseline=24.1, measured=23.2, limit=26.5, passed=True,
                says="p99 is 3.7 % lower than the baseline's",
            ),
            results.Gate(
                name="throughput", baseline=1104.0, measured=999.1, limit=1048.8, passed=False,
                says="throughput is 9.5 % lower than the baseline's; at most 5 % is allowed",
            ),
        ),
    )  # fmt: skip


def _shared() -> results.Finding:
    return results.Finding(
        code="same-machine",
        severity="warning",
        reason="generator and server share the machine's 8 cores",
        remedy="run guepard bench on another machine, or pin the two apart with taskset",
    )


@cache
def invalid() -> results.Document:
    late = results.Finding(
        code="send-lag",
        severity="invalid",
        reason="requests left late: p99 of the send lag is 18.2 ms, more than 1 ms and 5 % of p50",
        remedy="give the generator a free core (--processes 2), or ask for a lower --rate",
    )
    unsteady = results.Finding(
        code="unstable", severity="invalid", reason="p99 drifts by 31 % from the first to the last third",
        remedy="measure longer (--duration 120s)",
    )  # fmt: skip
    run = a_run(seed=3, is_valid=False, findings=(_shared(), late, unsteady), sent_rate=912.0)
    steadiness = msgspec.structs.replace(run.steadiness, is_steady=False, drift=0.31, says="p99 drifts by 31 %")
    generator = msgspec.structs.replace(run.generator, cpu_share=0.998, runqueue_wait_share=0.22)
    return a_document(msgspec.structs.replace(run, generator=generator, steadiness=steadiness))


def _overloaded(rate: float) -> results.Finding:
    return results.Finding(
        code="overloaded",
        severity="invalid",
        reason=f"more was due than ended: 2,300/s of {rate:,.0f}/s, and what waits grows",
        remedy="ask for a lower --rate, or find the highest with --find-max",
    )


@cache
def search() -> results.Document:
    """Eight runs of `--find-max p99=50ms`, with the edge at 2,050 requests a second."""
    rates = (500.0, 1000.0, 2000.0, 4000.0, 2800.0, 2400.0, 2200.0, 2050.0)
    runs = []
    for index, rate in enumerate(rates):
        load = min(rate / 2300, 0.97)
        run = a_run(
            f"{rate:,.0f}/s", seed=10 + index, rate=rate, duration_s=6.0, warm_up_s=1.0, stalls=False,
            median_ms=6 + 2.2 * load / (1 - load) * (3 if rate > 2300 else 1), started_s=index * 8.0,
        )  # fmt: skip
        if rate > 2300:
            kept = 2300 / rate
            run = msgspec.structs.replace(
                run,
                is_valid=False,
                findings=(_overloaded(rate),),
                throughput=results.Estimate(value=2300.0, low=2281.0, high=2316.0),
                succeeded=int(run.succeeded * kept),
            )
        runs.append(run)
    return a_document(
        *runs,
        command=("guepard", "bench", URL, "--find-max", "p99=50ms"),
        slo=results.Slo(percent=99.0, limit_ms=50.0),
        edge=results.Edge(
            slo=results.Slo(percent=99.0, limit_ms=50.0),
            rate=results.Estimate(value=2050.0, low=2010.0, high=2200.0),
            lowest_failing=2200.0,
            confirmed=True,
            says="2,050 requests/s keep p99 within 50 ms; 2,200 do not",
        ),
    )


@cache
def comparison() -> results.Document:
    """Five blocks of A and B in turn, where B is faster in the middle and not to be told apart in the tail."""
    runs = []
    for block in range(5):
        for index, letter in enumerate("AB" if block % 2 == 0 else "BA"):
            side = "AB".index(letter)
            runs.append(
                a_run(
                    f"{letter}{block + 1}", seed=20 + 2 * block + side, target=side, rate=800.0, duration_s=5.0,
                    warm_up_s=0.5, median_ms=12.0 if side == 0 else 10.6, started_s=(2 * block + index) * 6.0,
                )
            )  # fmt: skip
    compared = (
        ("p50", "faster", -0.117, -0.131, -0.102, 0.021, "B is faster: p50 is 11.7 % lower (95 %: 10.2 to 13.1 %)"),
        ("p99", "cannot tell", -0.04, -0.11, 0.035, 0.09, "cannot tell: less than 9 % in p99 would not show"),
        ("throughput", "cannot tell", 0.001, -0.004, 0.006, 0.006, "cannot tell: both kept the rate"),
    )  # fmt: skip
    return a_document(
        *runs,
        command=("guepard", "bench", URL, "--compare", "http://127.0.0.1:9000/v2/models/resnet/infer"),
        targets=(a_target(), a_target("http://127.0.0.1:9000/v2/models/resnet/infer")),
        comparisons=tuple(
            results.Comparison(
                metric=metric,
                verdict=verdict,  # type: ignore[arg-type]
                difference=results.Estimate(value=value, low=low, high=high),
                minimum_detectable=least,
                blocks=5,
                says=says,
            )
            for metric, verdict, value, low, high, least, says in compared
        ),
    )


@cache
def stream() -> results.Document:
    target = msgspec.structs.replace(a_target("http://127.0.0.1:8000/v1/chat/completions"), protocol="openai-stream")
    return a_document(
        a_run(seed=5, rate=60.0, median_ms=640.0, stream=True, stalls=False, server=False), targets=(target,)
    )


@cache
def errors() -> results.Document:
    run = a_run(
        seed=6,
        failing=((429, "HTTP 429", 0.3, 1.0), (6, "timed out", 0.02, 5000.0), (8, "unexpected content", 0.01, 9.0)),
        is_valid=False,
        findings=(
            results.Finding(
                code="errors", severity="invalid", reason="32.5 % of the requests failed, most with HTTP 429",
                remedy="lower --rate below what the server admits, or raise its queue",
            ),
        ),
    )  # fmt: skip
    return a_document(run, slo=results.Slo(percent=99.0, limit_ms=50.0))


@cache
def closed_loop() -> results.Document:
    return a_document(a_run(seed=7, closed=True, duration_s=10.0))


@cache
def tiny() -> results.Document:
    """So few requests that no tail can be told."""
    return a_document(a_run(seed=8, rate=4.0, duration_s=3.0, warm_up_s=0.0, stalls=False, server=False))


@cache
def nothing_succeeded() -> results.Document:
    refused = results.Finding(
        code="unreachable", severity="invalid", reason="every connection was refused", remedy="start the server"
    )
    run = a_run(seed=9, rate=50.0, duration_s=4.0, failing=((1, "connection refused", 1.1, 0.1),), is_valid=False)
    return a_document(msgspec.structs.replace(run, findings=(refused,)))


@cache
def interrupted() -> results.Document:
    return a_document(a_run(seed=11, duration_s=5.0), interrupted=True)


def no_run() -> results.Document:
    return a_document(interrupted=True)


@cache
def hostile() -> results.Document:
    """Every text that can come from a server or a user tries to be more than text."""
    run = a_run(HOSTILE, seed=12, rate=300.0, duration_s=5.0, failing=((500, HOSTILE, 0.1, 3.0),))
    assert run.server is not None
    view = msgspec.structs.replace(
        run.server,
        phases=(results.ServerPhase(name=HOSTILE, mean_ms=3.0, source="server-timing"), *run.server.phases),
        statistics={HOSTILE: 1.0},
        metrics={HOSTILE: 2.0},
        unavailable={HOSTILE: HOSTILE},
    )
    finding = results.Finding(code=HOSTILE, severity="warning", reason=HOSTILE, remedy=HOSTILE)
    target = results.Target(
        url=HOSTILE, protocol=HOSTILE, model=HOSTILE, model_version=HOSTILE, server=HOSTILE, same_machine=False
    )
    base = comparison()
    run = msgspec.structs.replace(
        run,
        server=view,
        findings=(finding,),
        window=msgspec.structs.replace(run.window, warm_up=HOSTILE),
        steadiness=msgspec.structs.replace(run.steadiness, says=HOSTILE),
        load=msgspec.structs.replace(run.load, arrivals=HOSTILE),
    )
    return a_document(
        run,
        msgspec.structs.replace(run, target=1),
        created=HOSTILE,
        command=("guepard", HOSTILE),
        guepard=HOSTILE,
        versions={HOSTILE: HOSTILE},
        commit=HOSTILE,
        machine=msgspec.structs.replace(base.machine, cpu=HOSTILE, system=HOSTILE),
        targets=(target, target),
        payloads=msgspec.structs.replace(base.payloads, source=HOSTILE, sha256=HOSTILE, order=HOSTILE),
        comparisons=tuple(msgspec.structs.replace(each, metric=HOSTILE, says=HOSTILE) for each in base.comparisons),
        gates=(results.Gate(name=HOSTILE, baseline=1.0, measured=2.0, limit=1.5, passed=False, says=HOSTILE),),
        edge=results.Edge(
            slo=results.Slo(percent=99.0, limit_ms=50.0), rate=None, lowest_failing=10.0, confirmed=False, says=HOSTILE
        ),
        scenario=HOSTILE,
        extra={HOSTILE: HOSTILE},
    )


BUILDERS: dict[str, Callable[[], results.Document]] = {
    each.__name__: each
    for each in (
        valid, invalid, search, comparison, stream, errors, closed_loop, tiny, nothing_succeeded, interrupted, no_run,
        hostile,
    )
}  # fmt: skip

"""Runs of the instrument on servers of known behaviour, without the command around it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from guepard.measure.instrument import Instrument
from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.plan import Arrivals, Endpoint, LoadPlan, Payload, ReplyRule
from guepard.measure.results import Run, Slo
from tests.services.known_behaviours import AnyBehaviour
from tests.services.known_servers import KnownServer

SECOND = 1_000_000_000
REQUEST = (
    b'POST /infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"x":1}'
)


def load_plan(
    port: int,
    *,
    rate: float = 0.0,
    concurrency: int = 0,
    seconds: float,
    requests: int = 0,
    timeout_s: float = 20.0,
    connections: int = 1_024,
    reply: ReplyRule = ReplyRule(),  # noqa: B008
) -> LoadPlan:
    """An open loop with one request every 1 / `rate` seconds, or a closed one."""
    return LoadPlan(
        endpoint=Endpoint(protocol="http", host="127.0.0.1", port=port),
        payloads=(Payload(data=REQUEST),),
        arrivals=Arrivals(kind="constant", rate=rate) if rate else None,
        concurrency=concurrency,
        requests=requests,
        duration_ns=round(seconds * SECOND),
        timeout_ns=round(timeout_s * SECOND),
        max_connections=connections,
        reply=reply,
    )


def measured(
    generator: LoadGenerator,
    plan: LoadPlan,
    *,
    slo: Slo | None = None,
    max_error_share: float = 0.01,
    self_test_rate: float | None = None,
    warm_up_s: float | None = 0.0,
) -> Run:
    """One run, of which everything counts unless said otherwise."""
    instrument = Instrument(
        generator, same_machine=True, max_error_share=max_error_share, self_test_rate=self_test_rate
    )
    return instrument.measure(plan, name="run", slo=slo, warm_up_s=warm_up_s)


def measured_at_once(*loads: tuple[AnyBehaviour, dict[str, Any]], warm_up_s: float | None = 0.0) -> list[Run]:
    """A run for each behaviour, with what `load_plan` takes, all at the same time.

    Each has a server and a generator of its own. They have to be light ones, as they share the machine.
    """

    def measure(load: tuple[AnyBehaviour, dict[str, Any]]) -> Run:
        behaviour, options = load
        with KnownServer(behaviour) as server, LoadGenerator(1) as generator:
            return measured(generator, load_plan(server.port, **options), warm_up_s=warm_up_s)

    with ThreadPoolExecutor(len(loads)) as threads:
        return [*threads.map(measure, loads)]


def percentile(run: Run, percent: float) -> float:
    """Of the latency from the intended send time, in milliseconds."""
    found = run.latency.at(percent)
    assert found is not None, f"no p{percent} in {run.latency}"
    return found.value_ms

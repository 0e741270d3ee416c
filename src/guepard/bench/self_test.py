"""How fast this generator is when no server holds it up: the same requests against the null server."""

import msgspec

from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.null_server import NullServer
from guepard.measure.load.plan import Endpoint, LoadPlan, ReplyRule
from guepard.measure.observation import Observation

_DURATION_NS = 500_000_000
_LEAST_CONCURRENCY = 16


def self_test_rate(generator: LoadGenerator, plan: LoadPlan) -> float | None:
    """Requests per second that `generator` can send of the plan's payloads; None where no null server speaks as the
    target does: over gRPC, TLS and for streams.

    Cost: about a second. Raises: KeyboardInterrupt, as anywhere where there is no partial result; GeneratorFailed.
    """
    if plan.endpoint.protocol != "http" or plan.endpoint.tls or plan.reply.events or plan.is_head:
        return None
    with NullServer() as server:
        test = msgspec.structs.replace(
            plan,
            endpoint=Endpoint(protocol="http", host=server.host, port=server.port),
            arrivals=None,
            concurrency=max(_LEAST_CONCURRENCY, plan.concurrency),
            requests=0,
            duration_ns=_DURATION_NS,
            reply=ReplyRule(),
        )
        seen = Observation()
        if generator.run(test, seen).was_interrupted:
            raise KeyboardInterrupt
    if not seen.count:
        return None
    return seen.tally.window(0, seen.tally.end_s).succeeded / seen.last_end_s

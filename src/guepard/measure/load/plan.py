"""What one run of load is: where to, what, when, and how long. Travels to generator processes as msgpack."""

from typing import Literal

from msgspec import Struct


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where connections go. `host_name` is what TLS checks, if not `host`."""

    protocol: Literal["http", "grpc"]
    host: str
    port: int
    tls: bool = False
    host_name: str = ""
    ca_file: str | None = None
    insecure: bool = False


class UniqueSpot(Struct, frozen=True, kw_only=True):
    """Where in a payload a number that no other request has is written, without changing the length.

    digits: `width` decimal digits at `offset`. float32: four bytes, little-endian, a value in [1, 2), so that 2**23
    values differ. float64: the same with eight bytes and 2**52. uint: `width` bytes, little-endian. small: `width`
    bytes of value 0 to 9. The bytes lie `stride` apart: one in each of several small numbers, of which none holds
    enough values.
    """

    offset: int
    width: int
    form: Literal["digits", "float32", "float64", "uint", "small"]
    stride: int = 1


class Payload(Struct, frozen=True, kw_only=True):
    """One request, ready to send.

    data: over HTTP the whole request, head and body, with Content-Length and without `Connection: close`; over gRPC
    the message without its five-byte prefix. path and metadata are gRPC's alone.
    """

    data: bytes
    path: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    spot: UniqueSpot | None = None


class PayloadOrder(Struct, frozen=True, kw_only=True):
    """Which payload a request gets. cycle: one after the other. unique: the same, each with its spot rewritten.
    zipf: index k (from 0) with a probability in proportion to 1/(k+1)**exponent."""

    kind: Literal["cycle", "unique", "zipf"] = "cycle"
    exponent: float = 1.0

    def __str__(self) -> str:
        return f"zipf:{self.exponent:g}" if self.kind == "zipf" else self.kind


class Arrivals(Struct, frozen=True, kw_only=True):
    """Intended send times of an open loop.

    constant and poisson: `rate` per second. bursts: at `rate` on average, `burst_size` at once. ramp: Poisson, from
    `rate` to `end_rate` over the run. trace: `times_ns`, counted from the start.
    """

    kind: Literal["constant", "poisson", "bursts", "ramp", "trace"]
    rate: float = 0.0
    end_rate: float = 0.0
    burst_size: int = 1
    times_ns: tuple[int, ...] = ()

    def mean_rate(self, duration_ns: int) -> float:
        """Per second, over the whole run."""
        if self.kind == "trace":
            last_ns = min(duration_ns, self.times_ns[-1]) or duration_ns
            return sum(time_ns < duration_ns for time_ns in self.times_ns) * 1e9 / last_ns
        return (self.rate + self.end_rate) / 2 if self.kind == "ramp" else self.rate

    def __str__(self) -> str:
        match self.kind:
            case "bursts":
                return f"bursts of {self.burst_size}"
            case "ramp":
                return f"ramp from {self.rate:g} to {self.end_rate:g} per second"
            case "trace":
                return f"trace of {len(self.times_ns)} requests"
        return self.kind


class ReplyRule(Struct, frozen=True, kw_only=True):
    """What makes an answer right, and how it is read.

    expect: a regular expression that must be found in the body. events: the answer is an event stream whose data
    events are pieces; with `last_event` one whose data equals it must end the stream, or it counts as broken.
    `piece`: a regular expression that makes a data event a piece (all of them, if empty); `error_event`: one that
    breaks the stream.
    """

    expect: str = ""
    events: bool = False
    last_event: str = ""
    piece: str = ""
    error_event: str = ""


class LoadPlan(Struct, frozen=True, kw_only=True):
    """One run. Either `arrivals` (open loop) or `concurrency` (closed loop). `requests` is 0 without a bound;
    whichever of it and `duration_ns` comes first ends the sending. What is under way then is waited for, up to
    `timeout_ns` from its intended time."""

    endpoint: Endpoint
    payloads: tuple[Payload, ...]
    order: PayloadOrder = PayloadOrder()
    arrivals: Arrivals | None = None
    concurrency: int = 0
    requests: int = 0
    duration_ns: int
    timeout_ns: int = 30_000_000_000
    max_connections: int = 1_024
    """Over gRPC, whose calls share connections, this many calls under way."""
    streams_per_connection: int = 0
    """Of gRPC's calls under way, so many on one connection at most; 0: as many as the server allows, up to 100."""
    processes: int = 1
    reply: ReplyRule = ReplyRule()
    server_timing: bool = True
    """Keep the Server-Timing of a share of the answers."""
    seed: int = 1
    first_number: int = 0
    """Of this run's first request, so that a later run of the same corpus goes on instead of repeating."""
    is_head: bool = False
    """The requests are HEAD: answers have no body, whatever their length says."""

"""The seven stamps of a request and the six phases between them.

Logs, metrics, traces, statistics and responses all use these words. Names of the stamps: Triton's trace activities.

    request_start ─ decode ─ queue_start ─ queue ─ compute_start ─ input ─ compute_input_end
                  ─ compute ─ compute_output_start ─ output ─ compute_end ─ encode ─ request_end
"""

STAMPS = (
    "request_start",
    "queue_start",
    "compute_start",
    "compute_input_end",
    "compute_output_start",
    "compute_end",
    "request_end",
)

PHASES = ("decode", "queue", "input", "compute", "output", "encode")


class BatchStamps:
    """The four stamps that all requests of one execution share, in nanoseconds of the monotonic clock.

    `server_timing` belongs to the HTTP front end, which writes these phases once for all of the requests.
    """

    __slots__ = ("compute_end", "compute_input_end", "compute_output_start", "compute_start", "server_timing")

    def __init__(self) -> None:
        self.compute_start = 0
        self.compute_input_end = 0
        self.compute_output_start = 0
        self.compute_end = 0
        self.server_timing = b""

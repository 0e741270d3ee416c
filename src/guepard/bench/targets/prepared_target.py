"""The end of the preparation: payloads, where they go, and what is known about them."""

from msgspec import Struct

from guepard.measure.load.plan import Endpoint, Payload, ReplyRule
from guepard.measure.results import Target


class PreparedTarget(Struct, frozen=True, kw_only=True):
    """Everything that a load plan needs of its target.

    source: where the payloads came from, in words. sha256: of the corpus, equal for equal questions to two servers.
    notes: what was assumed, left out or changed, one sentence each. path_prefix: what stands before `/v2` in the
    server's paths. headers: what other questions to the same server must carry; over gRPC they are metadata. is_head:
    answers have no body.
    """

    endpoint: Endpoint
    payloads: tuple[Payload, ...]
    reply: ReplyRule
    target: Target
    source: str
    sha256: str
    notes: tuple[str, ...] = ()
    path_prefix: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    is_head: bool = False

"""What a client's Accept-Encoding means for the answers to it."""

import re
from functools import lru_cache
from typing import NamedTuple

from guepard.protocols import content_coding

CODED_FROM = 1_024
"""Bytes from which on an answer is worth being coded."""

_ELEMENT = re.compile(r"([!#$%&'*+.^_`|~0-9a-z-]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?")
_MAX_BYTES = 1_024  # of a value; what follows is not looked at
_ALIASES = {"x-gzip": "gzip"}


class Negotiated(NamedTuple):
    """The coding for answers of `coded_from` bytes or more; `coding` None: none that is written here is wanted."""

    coding: str | None
    coded_from: int


@lru_cache(256)
def negotiate(value: bytes | None) -> Negotiated:
    """By weight, then by the server's preference. Elements that are malformed count as absent.

    A client that excludes answers without a coding gets small ones coded too, and still gets them without one when it
    excludes every other coding as well.

    Source: RFC 9110 section 12.5.3.
    """
    weights = _weights(value or b"")
    others = weights.get("*", 0.0)
    best, weight = None, 0.0
    for coding in content_coding.PREFERENCE:
        wanted = weights.get(coding, others)
        if wanted > weight and coding in content_coding.available():
            best, weight = coding, wanted
    identity = weights.get("identity", weights.get("*"))
    if best is None or (identity is not None and identity > weight):
        return Negotiated(None, CODED_FROM)
    return Negotiated(best, 1 if identity == 0.0 else CODED_FROM)


def _weights(value: bytes) -> dict[str, float]:
    weights: dict[str, float] = {}
    for element in value[:_MAX_BYTES].decode("latin-1").lower().split(","):
        match = _ELEMENT.fullmatch(element.strip(" \t"))
        if match is not None:
            weights[_ALIASES.get(match[1], match[1])] = float(match[2]) if match[2] is not None else 1.0
    return weights

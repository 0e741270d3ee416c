"""The payloads that are kept of those that were made, and one hash of them all."""

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from guepard.measure.load.plan import Payload

CORPUS_BYTES = 64 * 2**20
"""How much the payloads of one target may take, since every generator process holds them all."""

_TRIES = 2


class Made(NamedTuple):
    """`identity`: what the hash takes of it. Host names and ports stay out, so that corpora compare across servers."""

    payload: Payload
    identity: bytes


class PayloadCorpus(NamedTuple):
    payloads: tuple[Payload, ...]
    sha256: str


def generated_corpus(made: Iterable[Made], count: int, notes: list[str]) -> PayloadCorpus:
    """`count` payloads without two alike, or as many as there are room and different values for.

    `made` may be without end. What was left out goes into `notes`.
    """
    kept: list[Made] = []
    seen: set[bytes] = set()
    size = 0
    for tried, one in enumerate(made, 1):
        digest = sha256(one.identity).digest()
        if digest not in seen:
            if kept and size + len(one.payload.data) > CORPUS_BYTES:
                notes.append(_bounded(len(kept), f"{count}"))
                break
            seen.add(digest)
            kept.append(one)
            size += len(one.payload.data)
        if len(kept) == count:
            break
        if tried >= _TRIES * count:
            notes.append(f"only {len(kept)} different requests were found for inputs this small")
            break
    return _corpus(kept)


def sampled_corpus(made: Iterable[Made], notes: list[str]) -> PayloadCorpus:
    """The payloads of a user in their order, as many as there is room for; the first one in any case."""
    kept: list[Made] = []
    size = 0
    for one in made:
        if kept and size + len(one.payload.data) > CORPUS_BYTES:
            notes.append(_bounded(len(kept), "all samples"))
            break
        kept.append(one)
        size += len(one.payload.data)
    return _corpus(kept)


def _bounded(kept: int, wanted: str) -> str:
    return f"{kept} requests are used instead of {wanted}: more would take over {CORPUS_BYTES >> 20} MiB"


def _corpus(kept: list[Made]) -> PayloadCorpus:
    digest = sha256()
    for one in kept:
        digest.update(len(one.identity).to_bytes(8))
        digest.update(one.identity)
    return PayloadCorpus(tuple(one.payload for one in kept), digest.hexdigest())

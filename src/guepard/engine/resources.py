"""What the machine gives to the models, and how they are to use it."""

from dataclasses import dataclass
from pathlib import Path

from guepard.core.buffers import BufferPool
from guepard.core.model_config import Profile


@dataclass(frozen=True, slots=True)
class Resources:
    """`cpus` and `memory_bytes` are those that this process may really use.

    `cache` is a folder for what is worth keeping between runs of the server, made when first needed; None: nothing is
    kept. `buffers` is the server's own memory pool, for batches that no executor wants elsewhere; None: there is none.
    """

    cpus: int
    memory_bytes: int
    profile: Profile = "standard"
    cache: Path | None = None
    buffers: BufferPool | None = None

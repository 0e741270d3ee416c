"""The seam for what lies on disk in a form that no engine runs as it is.

A format looks at a file or folder and says which backend is to load what, and which steps go around it. It loads no
model and keeps none; what it has to make first (a converted file, say) it keeps in `ModelSource.cache`.
"""

from dataclasses import dataclass, field
from typing import Protocol

from guepard.backends.base import ModelSource
from guepard.core.hooks import Hooks


@dataclass(frozen=True, slots=True)
class Resolved:
    """`backend` is to load `source`, with `hooks` around it; those of the operator come outside of them.

    `facts` are what there is to tell of it, beside what the engine says of itself.
    """

    source: ModelSource
    backend: str
    hooks: Hooks = field(default_factory=Hooks)
    facts: tuple[tuple[str, str], ...] = ()


class Format(Protocol):
    """Reads models of one form. Raises LoadError with a reason that a client may read."""

    name: str

    def resolve(self, source: ModelSource) -> Resolved: ...

"""What was worked out before, by what it was worked out from, within bounds."""

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Memo(OrderedDict[Key, Value]):
    """A dict of at most `limit` entries; the oldest makes room. Looking up costs what a dict's look-up does."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def keep(self, key: Key, value: Value) -> None:
        if len(self) >= self._limit:
            self.popitem(last=False)
        self[key] = value

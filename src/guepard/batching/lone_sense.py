"""Do turns of the event loop bring single requests, or several together?

Waiting for the end of a turn lets requests that came together leave together, but costs a turn of its own, which for a
request that comes alone is pure loss (ADR 0003). So after some turns with one request each, requests go at once, and
now and then one waits for the turn's end to see whether that is still right.
"""

_TURNS = 4  # with a single request, before requests go at once
_INTERVAL = 16  # requests that go at once between two that wait to see; it alternates with 17


class LoneSense:
    """The interval alternates because turns of a fixed size could otherwise hide behind it: when every 16th request is
    the last of its turn, nobody ever comes after it. Of two looks that are 16 and 17 apart at most one is the last."""

    __slots__ = ("_interval", "_left", "_single_turns", "is_lone")

    def __init__(self) -> None:
        self.is_lone = False
        self._single_turns = 0
        self._interval = _INTERVAL
        self._left = _INTERVAL

    @property
    def is_sure(self) -> bool:
        """Whether the next one goes at once."""
        return self.is_lone and self._left > 1

    def goes_at_once(self) -> bool:
        """Whether a request that finds an idle instance leaves now rather than with the turn."""
        if not self.is_lone:
            return False
        self._left -= 1
        if self._left:
            return True
        self._interval ^= 1
        self._left = self._interval
        return False

    def turn_ended(self, waiting: int) -> None:
        """A turn that was waited for brought `waiting` requests."""
        if waiting > 1:
            self.is_lone = False
            self._single_turns = 0
            return
        self._single_turns += 1
        if self._single_turns >= _TURNS:
            self.is_lone = True

    def turn_was_full(self) -> None:
        """One turn brought more than a batch."""
        self.is_lone = False
        self._single_turns = 0

"""`batching/lone_sense.py`."""

from benchmarks.micro.timing.case import Case
from guepard.batching.lone_sense import LoneSense


def cases() -> list[Case]:
    sense = LoneSense()

    def lone_turn() -> None:
        if not sense.goes_at_once():
            sense.turn_ended(1)

    return [Case("a turn with one request", lone_turn)]

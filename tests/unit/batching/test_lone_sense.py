import pytest

from guepard.batching.lone_sense import LoneSense


def lone_sense() -> LoneSense:
    sense = LoneSense()
    for _ in range(4):
        assert not sense.goes_at_once()
        sense.turn_ended(1)
    return sense


def test_requests_go_at_once_after_four_single_turns() -> None:
    assert lone_sense().goes_at_once()


def test_a_turn_with_two_requests_starts_the_count_anew() -> None:
    sense = LoneSense()
    for waiting in (1, 1, 1, 2, 1, 1, 1):
        sense.turn_ended(waiting)
    assert not sense.is_lone
    sense.turn_ended(1)
    assert sense.is_lone


def test_a_full_turn_ends_it() -> None:
    sense = lone_sense()
    sense.turn_was_full()
    assert not sense.goes_at_once()


@pytest.mark.parametrize("size", range(2, 70))
def test_turns_of_any_fixed_size_are_noticed(size: int) -> None:
    """Whatever the size, the request that waits to see is not always the last of its turn."""
    for phase in range(size):
        sense = lone_sense()
        position = phase
        for _ in range(3 * 17):
            if not sense.goes_at_once():
                sense.turn_ended(size - position % size)  # those of this turn that come from here on
                if not sense.is_lone:
                    break
            position += 1
        assert not sense.is_lone, f"turns of {size} from phase {phase} stay hidden"

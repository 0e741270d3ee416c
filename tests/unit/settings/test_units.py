"""Durations and sizes: what people write is read exactly, and what is printed reads back as the same number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.settings.units import ByteSize, Duration, Quantity

AMOUNTS = st.integers(min_value=0, max_value=2**63 - 1)


@given(AMOUNTS)
def test_what_is_printed_reads_back_as_the_same_duration(amount: int) -> None:
    assert Duration.read(str(Duration(amount))) == amount


@given(AMOUNTS)
def test_what_is_printed_reads_back_as_the_same_size(amount: int) -> None:
    assert ByteSize.read(str(ByteSize(amount))) == amount


@given(AMOUNTS, st.sampled_from(sorted(Duration.units)))
def test_no_unit_gives_a_shorter_text_of_whole_numbers(amount: int, unit: str) -> None:
    whole, rest = divmod(amount, Duration.units[unit])
    if rest == 0 and amount:
        assert len(str(Duration(amount))) <= len(f"{whole}{unit}")


@given(st.text(max_size=300) | st.integers() | st.floats() | st.booleans() | st.none() | st.lists(st.integers()))
def test_anything_is_a_quantity_or_a_short_refusal(value: object) -> None:
    for quantity in (Duration, ByteSize):
        try:
            outcome: Quantity | str = quantity.read(value)
        except ValueError as error:
            outcome = str(error)
        assert outcome >= 0 if isinstance(outcome, Quantity) else 0 < len(outcome) < 400


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2ms", 2_000_000),
        ("500us", 500_000),
        ("500µs", 500_000),
        ("1.5s", 1_500_000_000),
        ("2m", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("7ns", 7),
        (" 30 s ", 30_000_000_000),
        (0, 0),
        ("0", 0),
        (0.0, 0),
    ],
)
def test_durations(text: object, nanoseconds: int) -> None:
    assert Duration.read(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MB", 64_000_000),
        ("64mb", 64_000_000),
        ("128MiB", 2**27),
        ("128Mi", 2**27),
        ("1GiB", 2**30),
        ("1.5KiB", 1_536),
        ("12B", 12),
        (4_096, 4_096),
        ("4096", 4_096),
    ],
)
def test_sizes(text: object, size: int) -> None:
    assert ByteSize.read(text) == size


@pytest.mark.parametrize(
    ("quantity", "value", "printed"),
    [
        (Duration, 0, "0"),
        (Duration, 1_500_000_000, "1.5s"),
        (Duration, 75_000_000_000, "75s"),
        (Duration, 300_000_000_000, "5m"),
        (Duration, 1_001, "1001ns"),
        (ByteSize, 2**27, "128MiB"),
        (ByteSize, 64_000_000, "64MB"),
        (ByteSize, 1_536, "1536B"),
    ],
)
def test_printed_in_the_shortest_exact_unit(quantity: type[Quantity], value: int, printed: str) -> None:
    assert str(quantity(value)) == printed
    assert f"{quantity(value)}" == printed


@pytest.mark.parametrize(
    ("quantity", "value", "fragment"),
    [
        (Duration, 30, "write 30s or 30ms"),
        (Duration, "2.5", "write 2.5s or 2.5ms"),
        (Duration, "5 parsecs", "unknown unit 'parsecs'"),
        (Duration, "-1s", "expected a duration such as"),
        (Duration, "0.5ns", "finer than ns"),
        (Duration, "99999999999h", "too large; the largest is 2562047h"),
        (Duration, True, "expected a duration"),
        (Duration, "", "expected a duration"),
        (Duration, "٣s", "expected a duration"),
        (ByteSize, "64Mbit", "unknown unit 'Mbit'"),
        (ByteSize, 1.5, "finer than B"),
        (ByteSize, -1, "expected a size such as"),
        (ByteSize, float("inf"), "expected a size"),
    ],
)
def test_refusals_say_what_to_write(quantity: type[Quantity], value: object, fragment: str) -> None:
    with pytest.raises(ValueError, match=fragment):
        quantity.read(value)

"""Which payload each request gets."""

from itertools import islice
from typing import Literal

import numpy as np
import pytest

from guepard.measure.load.corpus import payloads_of, unique_maker
from guepard.measure.load.plan import Payload, PayloadOrder, UniqueSpot
from guepard.measure.load.records import UNIQUE

PLAIN = tuple(Payload(data=b"payload %d" % index) for index in range(5))


def chosen(order: PayloadOrder, count: int, *, first: int = 0, share: int = 0, shares: int = 1) -> list[int]:
    found = payloads_of(PLAIN, order, first=first, share=share, shares=shares, seed=1)
    return [index for index, data, _ in islice(found, count) if data == PLAIN[index].data]


def test_cycle_goes_round_and_on_from_the_first_number() -> None:
    assert chosen(PayloadOrder(), 7) == [0, 1, 2, 3, 4, 0, 1]
    assert chosen(PayloadOrder(), 3, first=3) == [3, 4, 0]


@pytest.mark.parametrize("order", [PayloadOrder(), PayloadOrder(kind="zipf")])
def test_shares_of_processes_make_up_the_sequence_of_one(order: PayloadOrder) -> None:
    whole = chosen(order, 12_000)
    parts = [chosen(order, 4_000, share=share, shares=3) for share in range(3)]
    if order.kind == "cycle":
        assert [index for turn in zip(*parts, strict=True) for index in turn] == whole
    counts = np.bincount([index for part in parts for index in part], minlength=5) / 12_000
    assert counts == pytest.approx(np.bincount(whole, minlength=5) / 12_000, abs=0.03)


def test_zipf_repeats_by_the_law() -> None:
    counts = np.bincount(chosen(PayloadOrder(kind="zipf", exponent=1.0), 50_000), minlength=5)
    law = 1 / np.arange(1, 6)
    assert counts / counts.sum() == pytest.approx(law / law.sum(), abs=0.01)


@pytest.mark.parametrize(
    "spot",
    [
        UniqueSpot(offset=4, width=8, form="digits"),
        UniqueSpot(offset=4, width=4, form="float32"),
        UniqueSpot(offset=4, width=8, form="float64"),
        UniqueSpot(offset=4, width=4, form="uint"),
    ],
)
def test_unique_payloads_differ_only_in_their_spot(spot: UniqueSpot) -> None:
    data = b"abcd" + bytes(spot.width) + b"wxyz"
    make = unique_maker(data, spot)
    made = {make(number) for number in range(20_000)}
    assert len(made) == 20_000
    for each in islice(made, 100):
        assert len(each) == len(data)
        assert each.startswith(b"abcd")
        assert each.endswith(b"wxyz")
    if spot.form.startswith("float"):
        values = np.array([each[4 : 4 + spot.width] for each in made]).view(spot.form)
        assert values.min() >= 1.0
        assert values.max() < 2.0


@pytest.mark.parametrize(("form", "highest"), [("digits", ord("9")), ("small", 9), ("uint", 255)])
def test_a_unique_number_may_be_spread_over_several_places(
    form: Literal["digits", "small", "uint"], highest: int
) -> None:
    data = b"ab" + b"\1.." * 6 + b"yz"
    make = unique_maker(data, UniqueSpot(offset=2, width=6, form=form, stride=3))
    made = {make(number) for number in range(20_000)}
    assert len(made) == 20_000
    for each in made:
        assert (each[:2], each[20:], each[3:20:3], each[4:20:3]) == (b"ab", b"yz", b"." * 6, b"." * 6)
        assert max(each[2:20:3]) <= highest


def test_unique_requests_are_marked_and_those_without_a_spot_are_not() -> None:
    payloads = (Payload(data=b"....", spot=UniqueSpot(offset=0, width=4, form="digits")), Payload(data=b"same"))
    found = list(islice(payloads_of(payloads, PayloadOrder(kind="unique"), first=0, share=0, shares=1, seed=1), 6))
    assert [flags for _, _, flags in found] == [UNIQUE, 0] * 3
    assert len({data for _, data, _ in found}) == 4


@pytest.mark.parametrize(
    ("width", "form", "count"), [(2, "digits", 100), (2, "small", 100), (1, "uint", 256), (4, "float32", 1 << 23)]
)
def test_a_number_that_comes_again_is_marked_unique_no_more(
    width: int, form: Literal["digits", "small", "uint", "float32"], count: int
) -> None:
    payloads = (Payload(data=b"....", spot=UniqueSpot(offset=0, width=width, form=form)),)
    first = count - 3
    order = PayloadOrder(kind="unique")
    found = list(islice(payloads_of(payloads, order, first=first, share=0, shares=1, seed=1), 5))
    assert [flags for _, _, flags in found] == [UNIQUE] * 3 + [0] * 2
    begin = islice(payloads_of(payloads, order, first=0, share=0, shares=1, seed=1), 2)
    assert [data for _, data, _ in found[3:]] == [data for _, data, _ in begin]


def test_two_processes_never_make_the_same_unique_payload() -> None:
    payloads = (Payload(data=b"........", spot=UniqueSpot(offset=0, width=8, form="digits")),)
    made = [
        {
            data
            for _, data, _ in islice(
                payloads_of(payloads, PayloadOrder(kind="unique"), first=0, share=share, shares=2, seed=1), 500
            )
        }
        for share in range(2)
    ]
    assert not made[0] & made[1]

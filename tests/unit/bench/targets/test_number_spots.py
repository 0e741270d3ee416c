"""Where decimals in somebody's JSON may be rewritten."""

import orjson
import pytest

from guepard.bench.targets.unique_spots import number_spot


@pytest.mark.parametrize(
    ("body", "digits"),
    [
        (b'{"data":[0.12345678,1]}', b"1234567"),
        (b"[1.1234567]", b"123456"),
        (b"[-0.1234567]", b"1234567"),
        (b"[0.5,3.123456]", b"123456"),
        (b"[10.1234567]", None),
        (b"[0.12345]", None),
        (b"[0.1234567e5]", None),
        (b'["0.1234567", "a\\"0.1234567"]', None),
        (b'{"0.1234567": 0.7654321}', b"7654321"),
        (b"", None),
    ],
)
def test_the_first_number_that_can_tell_a_million_apart(body: bytes, digits: bytes | None) -> None:
    spot = number_spot(body)
    if digits is None:
        assert spot is None
        return
    assert spot is not None
    assert body[spot.offset : spot.offset + spot.width] == digits
    for other in (b"0" * spot.width, b"9" * spot.width):
        orjson.loads(body[: spot.offset] + other + body[spot.offset + spot.width :])


def test_only_behind_what_is_named() -> None:
    body = b'{"parameters":{"t":0.1234567},"inputs":[{"data":[0.7654321]}]}'
    spot = number_spot(body, b'"data"')
    assert spot is not None
    assert body[spot.offset :].startswith(b"7654321")

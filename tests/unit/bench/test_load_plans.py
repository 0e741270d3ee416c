"""From options to plans of load: traces."""

from pathlib import Path

import pytest

from guepard.bench.load_plans import read_trace
from guepard.core.errors import ConfigurationError


def test_a_trace_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_bytes(b"\xef\xbb\xbf0.5\r\n0.75\r\n")
    assert read_trace(trace) == (0, 250_000_000)


@pytest.mark.parametrize(("data", "says"), [(None, "No such file or directory"), (b"1\n\xff", "not UTF-8 at byte 2")])
def test_what_is_wrong_with_a_trace_is_said_in_words(tmp_path: Path, data: bytes | None, says: str) -> None:
    trace = tmp_path / "trace"
    if data is not None:
        trace.write_bytes(data)
    with pytest.raises(ConfigurationError, match=says):
        read_trace(trace)


def test_guepards_own_log_is_a_trace_of_its_requests(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(
        '{"ts": "2026-01-31T12:00:00.000Z", "logger": "guepard", "message": "is serving"}\n'
        '{"ts": "2026-01-31T12:00:01.500Z", "logger": "guepard.access", "status": 200}\n'
        '{"ts": "2026-01-31T12:00:02.000Z", "logger": "guepard.access", "status": 200}\n'
    )
    assert read_trace(trace) == (0, 500_000_000)

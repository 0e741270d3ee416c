"""What the terminal shows after a run."""

import io
import re
from collections.abc import Callable

import msgspec
import pytest

from guepard.bench.summary import print_summary, summary
from guepard.bench.terminal import shown_width
from guepard.measure.results import Document
from tests.services import result_documents
from tests.services.terminals import Terminal


def row(text: str, beginning: str) -> str:
    """The line whose words begin so, without the label before them and with single blanks."""
    lines = [" ".join(re.sub(r"^[A-Z]\w* +(?=\S)", "", line).split()) for line in text.splitlines()]
    found = [line for line in lines if line.startswith(beginning)]
    assert found, f"no line begins with {beginning}:\n{text}"
    return found[0]


@pytest.mark.parametrize("width", [80, 92, 100])
@pytest.mark.parametrize("build", result_documents.BUILDERS.values(), ids=result_documents.BUILDERS)
def test_no_line_is_wider_than_asked_and_all_is_ascii(build: Callable[[], Document], width: int) -> None:
    text = summary(build(), width=width)
    assert text.isascii()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert not [line for line in text.splitlines() if len(line) > width and " " in line.strip()]
    assert text.endswith("\n")


def test_the_verdict_comes_first() -> None:
    assert summary(result_documents.valid()).startswith(
        "VALID: 1,001/s, p50 12.1 ms, p99 29.9 ms, 0 % failed; 1 of 2 gates missed\n"
    )
    lines = summary(result_documents.invalid()).splitlines()
    assert lines[0].startswith("INVALID because requests left late: p99 of the send lag is 18.2 ms")
    assert "  remedy: give the generator a free core (--processes 2), or ask for a lower --rate" in lines[:4]
    assert "  invalid: p99 drifts by 31 % from the first to the last third" in lines[:6]


def test_the_table_of_latencies_has_intervals_and_marks_what_the_sample_cannot_tell() -> None:
    text = summary(result_documents.valid())
    assert row(text, "p50").split() == ["p50", "12.06", "12.01", "..", "12.11", "12.02"]
    assert row(text, "p99.99") == "p99.99 (132.4) n too small: needs 100,000, has 30,018"
    assert "30,018 successes, worth 24,014 independent samples" in text
    tiny = summary(result_documents.tiny())
    assert row(tiny, "p50").endswith("n too small: needs 20, has 10")
    assert row(tiny, "p99.9").endswith("n too small: needs 10,000, has 10")


def test_what_was_asked_offered_sent_and_reached_are_told_apart() -> None:
    text = summary(result_documents.errors())
    assert row(text, "open loop").startswith("open loop, poisson, 1,000/s, for 30 s, timeout 30 s, 1 process, seed 6")
    assert row(text, "678.8/s succeeded").startswith(
        "678.8/s succeeded, 95 % interval 669.5 .. 688.2; goodput 672.9/s within 50 ms"
    )
    assert row(text, "1,001/s offered").startswith(
        "1,001/s offered, 1,000/s sent: 30,017 due, 20,365 succeeded, 9,652 failed"
    )
    assert "9,002 of them shed" in " ".join(text.split())


def test_errors_have_counts_and_latencies_of_their_own() -> None:
    text = summary(result_documents.errors())
    assert row(text, "HTTP 429").split() == ["HTTP", "429", "9,002", "30.0", "%", "1.000", "1.266"]
    assert row(text, "timed out").split()[:5] == ["timed", "out", "435", "1.4", "%"]
    assert row(text, "timed out").split()[5:] == ["5,057", "(6,312)"], "435 samples are too few for p99"
    assert "kind, not in the figures above" in text
    assert row(summary(result_documents.valid()), "none") == "none"


def test_no_success_means_no_latencies() -> None:
    text = summary(result_documents.nothing_succeeded())
    assert "no request succeeded" in text
    assert "p99.9" not in text


def test_a_closed_loop_carries_its_remark() -> None:
    words = " ".join(summary(result_documents.closed_loop()).split())
    assert "These percentiles are not what users wait under open traffic" in words
    assert "not what users wait" not in summary(result_documents.valid())


def test_streams_have_first_pieces_gaps_and_totals() -> None:
    text = summary(result_documents.stream())
    assert row(text, "p50 195.1").split() == ["p50", "195.1", "191.5", "..", "198.7", "8.006", "7.966", "..", "8.046"]
    assert row(text, "p99.9 (424.3)").split() == ["p99.9", "(424.3)", "(15.20)"]
    assert row(text, "p50 650.2").split()[1] == "650.2"
    assert "1,457 pieces/s" in text


def test_the_generator_and_the_server_tell_of_themselves() -> None:
    words = " ".join(summary(result_documents.valid()).split())
    assert "110 us CPU/request" in words
    assert "send lag p99 0.161 ms, loop lag p99 0.190 ms" in words
    assert "reached 61,300/s against a null server" in words
    assert "compute 8.11 62.0 % server-timing" in words
    assert "unexplained 1.05 8.0 %" in words
    assert "not read: metrics of the process: connection refused" in words


def test_a_search_shows_its_edge_and_every_run() -> None:
    text = summary(result_documents.search())
    assert text.startswith("VALID: 2,050 requests/s keep p99 within 50 ms; 2,200 do not\n")
    assert "2,050/s under p99 <= 50 ms, 95 % interval 2,010 .. 2,200" in text
    assert len(re.findall(r"^ {12}\S+/s .* (kept|missed)$", text, re.MULTILINE)) == 8


def test_a_comparison_shows_verdicts_and_both_sides() -> None:
    text = summary(result_documents.comparison())
    assert row(text, "p50 faster").split()[2:] == ["-11.7", "%", "-13.1", "%", "..", "-10.2", "%", "2.1", "%"]
    assert "cannot tell" in row(text, "p99 cannot")
    assert row(text, "p50 12").split() == ["p50", "12.06", "10.61"]
    assert "Errors B    none" in text


def test_gates_show_what_was_measured_against_the_limit() -> None:
    text = summary(result_documents.valid())
    assert row(text, "throughput MISSED").split() == ["throughput", "MISSED", "999.1", "1,049", "1,104"]


def test_a_gate_that_is_missed_says_why() -> None:
    text = summary(result_documents.valid())
    assert "throughput: throughput is 9.5 % lower than the baseline's; at most 5 % is allowed" in " ".join(text.split())


def test_an_interrupted_result_says_so_and_one_without_a_run_too() -> None:
    assert summary(result_documents.interrupted()).startswith("VALID, PARTIAL: interrupted")
    assert summary(result_documents.no_run()).startswith("NO RESULT because it was interrupted before any run ended\n")


def test_files_get_no_colour_and_terminals_do_unless_they_refuse() -> None:
    file = io.StringIO()
    print_summary(result_documents.valid(), file, {"TERM": "xterm"})
    assert "\x1b" not in file.getvalue()
    terminal = Terminal(columns=85)
    print_summary(result_documents.valid(), terminal.stream, {"TERM": "xterm"})
    coloured = terminal.output()
    assert coloured.startswith("\x1b[1;32mVALID\x1b[0m: ")
    plain = Terminal(columns=85)
    print_summary(result_documents.valid(), plain.stream, {"TERM": "xterm", "NO_COLOR": "1"})
    shown = plain.output()
    assert "\x1b" not in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == shown
    assert max(map(shown_width, shown.splitlines())) <= 84


def test_a_name_that_the_stream_cannot_hold_is_written_as_an_escape() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    document = result_documents.tiny()
    target = msgspec.structs.replace(document.targets[0], model="modèle")
    print_summary(msgspec.structs.replace(document, targets=(target,)), stream, {})
    assert rb"model mod\xe8le version 1" in raw.getvalue()

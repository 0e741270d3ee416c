"""How a result is read: the run that speaks for it, and its verdict."""

import msgspec
import pytest

from guepard.bench.reading import (
    headline,
    headline_run,
    histogram_or_none,
    pooled_latency,
    run_state,
    sides,
    verdict,
)
from guepard.measure.results import Document, Finding, Run
from tests.services import result_documents

TOO_MUCH = Finding(code="overloaded", severity="invalid", reason="what waits grows", remedy="ask for less")
LATE = Finding(code="send-lag", severity="invalid", reason="requests left late", remedy="use another machine")


def void(run: Run, finding: Finding) -> Run:
    return msgspec.structs.replace(run, is_valid=False, findings=(finding,))


def with_run(document: Document, index: int, run: Run) -> Document:
    runs = (*document.runs[:index], run, *document.runs[index + 1 :])
    return msgspec.structs.replace(document, runs=runs)


def test_a_run_speaks_for_itself() -> None:
    document = result_documents.valid()
    assert headline_run(document) is document.runs[0]
    found = verdict(document)
    assert (found.is_valid, found.word, found.reason) == (True, "VALID", "")
    assert headline(document) == "1,001/s, p50 12.1 ms, p99 29.9 ms, 0 % failed"


def test_an_invalid_run_says_why_and_what_to_do_and_keeps_the_rest_for_below() -> None:
    found = verdict(result_documents.invalid())
    assert (found.is_valid, found.word) == (False, "INVALID")
    assert found.reason.startswith("requests left late")
    assert found.remedy.startswith("give the generator a free core")
    assert [finding.code for _, finding in found.findings] == ["send-lag", "unstable", "same-machine"]
    assert [finding.code for _, finding in found.others] == ["unstable", "same-machine"]


def test_a_percentile_without_enough_samples_is_no_headline() -> None:
    assert headline(result_documents.tiny()) == "3.333/s, 0 % failed"


def test_a_closed_loop_is_called_one_beside_its_figures() -> None:
    assert headline(result_documents.closed_loop()).endswith("closed loop")


def test_a_search_is_judged_by_the_run_at_its_edge_alone() -> None:
    document = result_documents.search()
    shown = headline_run(document)
    assert shown is not None
    assert shown.load.rate == 2050
    assert verdict(document).is_valid
    assert not verdict(with_run(document, 7, void(document.runs[7], LATE))).is_valid


def test_of_runs_at_the_rate_found_the_longest_counts_and_of_these_the_last() -> None:
    document = result_documents.search()
    short, edge = document.runs[7], document.runs[7]
    longer = msgspec.structs.replace(edge, name="long", load=msgspec.structs.replace(edge.load, duration_s=30.0))
    again = msgspec.structs.replace(longer, name="again")
    runs = (*document.runs[:7], longer, again, short)
    shown = headline_run(msgspec.structs.replace(document, runs=runs))
    assert shown is again


def test_that_the_lowest_rate_was_too_much_is_an_answer_unless_the_generator_was_the_limit() -> None:
    document = result_documents.search()
    assert document.edge is not None
    edge = msgspec.structs.replace(document.edge, rate=None, lowest_failing=500.0)
    document = msgspec.structs.replace(document, edge=edge)
    assert verdict(with_run(document, 0, void(document.runs[0], TOO_MUCH))).is_valid
    assert not verdict(with_run(document, 0, void(document.runs[0], LATE))).is_valid


def test_in_a_search_a_run_over_the_edge_is_no_fault() -> None:
    document = result_documents.search()
    states = {run.load.rate: run_state(document, run) for run in document.runs}
    kept, missed = (500, 1000, 2000, 2050), (2200, 2400, 2800, 4000)
    assert states == dict.fromkeys(kept, "kept") | dict.fromkeys(missed, "missed")
    assert run_state(document, void(document.runs[3], LATE)) == "INVALID"
    alone = result_documents.invalid()
    assert run_state(alone, alone.runs[0]) == "INVALID"


def test_every_block_of_a_comparison_must_be_valid() -> None:
    document = result_documents.comparison()
    assert verdict(document).is_valid
    found = verdict(with_run(document, 4, void(document.runs[4], LATE)))
    assert not found.is_valid
    assert found.reason == "1 of 10 runs would mislead; A3: requests left late"


def test_sides_are_the_runs_of_each_target_and_pool_their_samples() -> None:
    document = result_documents.comparison()
    first, second = sides(document)
    assert [run.name for run in first.runs] == ["A1", "A2", "A3", "A4", "A5"]
    assert [run.name for run in second.runs] == ["B1", "B2", "B3", "B4", "B5"]
    assert pooled_latency(first.runs).count == sum(run.latency.count for run in first.runs)
    assert sides(result_documents.valid()) == ()


def test_what_was_interrupted_is_partial_and_what_has_no_run_is_no_result() -> None:
    assert verdict(result_documents.interrupted()).word == "VALID, PARTIAL"
    document = msgspec.structs.replace(result_documents.search(), edge=None, interrupted=True)
    found = verdict(document)
    assert (found.word, found.reason[:42]) == ("NO RESULT", "it was interrupted before there was an ans")
    found = verdict(result_documents.no_run())
    assert (found.is_valid, found.word) == (False, "NO RESULT")
    assert headline(result_documents.no_run()) == ""


@pytest.mark.parametrize("text", ["", "AAAA", "HISTFAAAAB"])
def test_a_histogram_that_was_damaged_by_hand_is_none(text: str) -> None:
    latency = result_documents.tiny().runs[0].latency
    assert histogram_or_none(latency) is not None
    assert histogram_or_none(msgspec.structs.replace(latency, histogram=text)) is None
    assert histogram_or_none(None) is None

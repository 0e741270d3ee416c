"""Which candidate wins, by figures that the test makes up."""

import pytest

from guepard.engine.engine_trial.decision import Candidate, Decision, decide


def tried(engine: str, precision: str, ratio: float | None = None, rejected: str = "") -> Candidate:
    row_ns = None if ratio is None else int(10_000_000 / ratio)
    reference_ns = None if ratio is None else 10_000_000
    return Candidate(
        engine=engine,
        precision=precision,
        row_ns=row_ns,
        reference_row_ns=reference_ns,
        ratio=ratio,
        cosine=None if ratio is None else 0.9999,
        rejected=rejected,
    )


def decided(*candidates: Candidate) -> Decision:
    return decide("onnxruntime", candidates, 1_000_000_000)


def test_the_fastest_wins() -> None:
    decision = decided(tried("openvino", "bf16", 3.4), tried("openvino", "f32", 1.2))
    assert (decision.engine, decision.precision, decision.ratio) == ("openvino", "bf16", 3.4)
    assert decision.reason == ("3.40 times as fast as onnxruntime (2.94 ms a row against 10), worst cosine 0.999900")


def test_of_two_that_are_about_as_fast_the_more_precise_wins() -> None:
    decision = decided(tried("openvino", "bf16", 2.1), tried("openvino", "f32", 2.0))
    assert (decision.precision, decision.ratio) == ("f32", 2.0)


def test_of_two_of_one_precision_the_faster_wins() -> None:
    assert decided(tried("a", "f32", 2.0), tried("b", "f32", 2.1)).engine == "b"


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.1])
def test_who_is_not_clearly_faster_is_not_chosen(ratio: float) -> None:
    decision = decided(tried("openvino", "f32", ratio))
    assert (decision.engine, decision.precision, decision.ratio) == ("onnxruntime", None, 1.0)
    assert decision.candidates[0].rejected == f"{ratio:.2f} times as fast, not clearly faster"
    assert decision.reason == f"the reference engine: openvino in f32: {ratio:.2f} times as fast, not clearly faster"


def test_who_was_rejected_is_not_chosen_however_fast() -> None:
    decision = decided(tried("openvino", "bf16", 9.0, "the cosine is too low"), tried("openvino", "f32", 1.5))
    assert decision.precision == "f32"
    assert decision.candidates[0].rejected == "the cosine is too low"


def test_who_was_not_measured_is_not_chosen() -> None:
    decision = decided(tried("openvino", "bf16"))
    assert decision.engine == "onnxruntime"
    assert decision.candidates[0].rejected == "it was not measured"


def test_with_nobody_to_choose_the_reference_stays() -> None:
    assert decided().reason == "the reference engine: there is no other to try"


def test_what_more_time_might_change_is_not_final() -> None:
    cut = Candidate(engine="a", precision="f32", rejected="there was no time to measure it", is_cut=True)
    won, lost = tried("b", "f32", 2.0), tried("b", "f32", 1.0)
    assert decided(won).is_final
    assert decided(lost).is_final
    assert decided(cut, won).is_final
    assert not decided(cut, lost).is_final
    open_yet = decide("onnxruntime", [lost], 1, is_complete=False)
    assert not open_yet.is_final
    assert open_yet.reason.endswith("; there was no time for more")


def test_an_engine_without_a_precision_of_ours_is_chosen_without_one() -> None:
    assert decided(tried("other", "", 2.0)).precision is None


def test_facts_hold_what_is_known() -> None:
    decision = decided(tried("openvino", "bf16", 2.0), tried("openvino", "f32", rejected="it raised"))
    assert decision.facts(cached=True, duration_ns=12_000_000) == {
        "candidates": [
            {
                "engine": "openvino",
                "precision": "bf16",
                "row_ms": 5.0,
                "rows_per_second": 200.0,
                "reference_row_ms": 10.0,
                "ratio": 2.0,
                "worst_cosine": 0.9999,
            },
            {"engine": "openvino", "precision": "f32", "rejected": "it raised"},
        ],
        "ratio": 2.0,
        "cached": True,
        "decision_seconds": 0.012,
    }

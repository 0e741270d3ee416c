"""Medians of turns, the best setting at each point, and the ratios to the best peer."""

import pytest

from benchmarks.comparisons.choice import Spread, best, engine_limits, lasting_setting, points, promising, settled
from benchmarks.comparisons.goals import goals
from tests.unit.benchmarks.comparisons import a_comparison, a_load, an_engine


def test_a_point_is_the_median_of_its_turns_with_its_ends() -> None:
    loads = [a_load("mosec", turn=turn, cpu_us=cpu) for turn, cpu in enumerate((30.0, 10.0, 20.0))]
    (point,) = points(a_comparison(*loads))
    assert point.cpu_us == Spread(20.0, 10.0, 30.0)
    assert point.title == "MOSEC"


def test_failures_and_disturbances_of_all_turns_are_counted() -> None:
    loads = [a_load("mosec", turn=0, failed=2), a_load("mosec", turn=1, failed=3, is_quiet=False)]
    (point,) = points(a_comparison(*loads))
    assert (point.failed, point.disturbed) == (5, 1)


def test_a_p99_is_supported_if_it_is_in_every_turn() -> None:
    loads = [a_load("mosec", turn=0), a_load("mosec", turn=1, is_p99_supported=False)]
    assert [point.is_p99_supported for point in points(a_comparison(*loads))] == [False]


def test_points_come_in_the_order_of_models_connections_and_contenders() -> None:
    loads = [a_load("triton"), a_load("guepard", connections=8), a_load("mosec"), a_load("guepard")]
    told = [(point.connections, point.peer) for point in points(a_comparison(*loads))]
    assert told == [(1, "guepard"), (1, "mosec"), (1, "triton"), (8, "guepard")]


def test_the_best_setting_may_differ_from_point_to_point() -> None:
    loads = [
        a_load("mosec", setting="alone", connections=1, requests_per_second=900.0),
        a_load("mosec", setting="batches", connections=1, requests_per_second=300.0),
        a_load("mosec", setting="alone", connections=8, requests_per_second=1_000.0),
        a_load("mosec", setting="batches", connections=8, requests_per_second=4_000.0),
        a_load("mosec", setting="alone", connections=8, form="raw bytes", kind="binary"),
    ]
    chosen = best(points(a_comparison(*loads)))
    told = [(point.connections, point.form, point.setting) for point in chosen]
    assert told == [(1, "JSON", "alone"), (8, "JSON", "batches"), (8, "raw bytes", "alone")]
    assert lasting_setting(chosen).setting == "batches"


def test_only_settings_that_may_be_the_best_in_some_figure_get_another_turn() -> None:
    loads = [
        a_load("mosec", setting="fast", requests_per_second=1_000.0, cpu_us=50.0, p50_ms=2.0),
        a_load("mosec", setting="thrifty", requests_per_second=100.0, cpu_us=40.0, p50_ms=2.0),
        a_load("mosec", setting="prompt", requests_per_second=100.0, cpu_us=90.0, p50_ms=1.0),
        a_load("mosec", setting="near", requests_per_second=910.0, cpu_us=90.0, p50_ms=9.0),
        a_load("mosec", setting="far", requests_per_second=890.0, cpu_us=45.0, p50_ms=1.2),
        a_load("triton", setting="far", requests_per_second=1.0),
    ]
    wanted = promising(points(a_comparison(*loads)))
    assert {(each.peer, each.setting) for each in wanted} == {
        *(("mosec", setting) for setting in ("fast", "thrifty", "prompt", "near")),
        ("triton", "far"),
    }


def test_a_setting_that_was_given_up_after_one_lucky_turn_is_not_the_best() -> None:
    loads = [
        a_load("mosec", setting="lucky", requests_per_second=900.0, cpu_us=1.0),
        *(a_load("mosec", setting="steady", turn=turn, requests_per_second=800.0) for turn in range(2)),
        a_load("guepard", form="V2 JSON", cpu_us=50.0),
    ]
    found = points(a_comparison(*loads))
    assert [point.setting for point in best(settled(found)) if point.peer == "mosec"] == ["steady"]
    assert goals(a_comparison(*loads))[0].peer.setting == "steady"


def test_what_the_engine_does_is_told_by_batch_size() -> None:
    engine = (an_engine("mlp", 1, 10.0), an_engine("mlp", 1, 30.0), an_engine("mlp", 64, 500.0), an_engine("x", 1, 1.0))
    assert engine_limits(a_comparison(engine=engine), "mlp") == {1: Spread(20.0, 10.0, 30.0), 64: Spread.of([500.0])}


def test_a_goal_is_measured_against_the_lowest_figure_of_any_peer_and_setting() -> None:
    loads = [
        a_load("guepard", form="V2 JSON", cpu_us=30.0, p50_ms=0.5),
        a_load("guepard", form="predict JSON", cpu_us=1.0),
        a_load("mosec", setting="fast", requests_per_second=9_000.0, cpu_us=120.0),
        a_load("mosec", setting="thrifty", requests_per_second=100.0, cpu_us=100.0),
        a_load("triton", cpu_us=300.0, p50_ms=0.8),
    ]
    cpu, p50 = goals(a_comparison(*loads))
    assert (cpu.peer.title, cpu.peer.setting, cpu.is_met) == ("MOSEC", "thrifty", True)
    assert cpu.ratio == pytest.approx(0.3)
    assert (p50.peer.title, p50.is_met) == ("Triton", False)
    assert p50.ratio == pytest.approx(0.625)
    assert "1 connection:" in str(cpu)
    assert "NOT met" in str(p50)


def test_a_goal_needs_both_sides_in_the_same_kind_of_body() -> None:
    loads = [
        a_load("guepard", form="V2 binary", kind="binary"),
        a_load("mosec"),
        a_load("guepard", model="minilm", form="V2 JSON"),
        a_load("triton", model="minilm"),
    ]
    assert goals(a_comparison(*loads, models=("mlp", "minilm"))) == []

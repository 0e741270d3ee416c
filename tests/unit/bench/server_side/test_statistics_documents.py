"""Triton's statistics, in each form that servers write them in, become counters; anything else is refused in words."""

from typing import Any

import pytest

from guepard.bench.server_side.model_counters import from_statistics
from guepard.bench.server_side.not_told import NotTold


def version_stat(version: str, scale: int = 1, number: type = int) -> dict[str, Any]:
    """One version as Triton's documentation lays it out; `number` is how integers are written."""

    def part(count: int, ns: int) -> dict[str, Any]:
        return {"count": number(count * scale), "ns": number(ns * scale)}

    return {
        "name": "m",
        "version": version,
        "last_inference": number(1_580_000_000_000),
        "inference_count": number(40 * scale),
        "execution_count": number(5 * scale),
        "inference_stats": {
            "success": part(10, 30_000_000),
            "fail": part(2, 1_000),
            "queue": part(10, 10_000_000),
            "compute_input": part(10, 1_000_000),
            "compute_infer": part(10, 15_000_000),
            "compute_output": part(10, 2_000_000),
            "cache_hit": part(4, 100),
            "cache_miss": part(6, 100),
        },
        "batch_stats": [{"batch_size": number(8), "compute_infer": part(5, 7)}],
        "response_stats": {},
    }


@pytest.mark.parametrize("number", [int, str], ids=["numbers", "text, as protobuf's JSON has them"])
def test_a_version_is_read(number: type) -> None:
    counters = from_statistics({"model_stats": [version_stat("1", number=number)]})
    assert counters.means_ms == {"queue": 1.0, "input": 0.1, "compute": 1.5, "output": 0.2}
    assert (counters.requests, counters.failures, counters.request_ms) == (10, 2, 3.0)
    assert (counters.batch_size, counters.cache_hit_share) == (8.0, 0.4)


def test_versions_are_added_up() -> None:
    counters = from_statistics({"model_stats": [version_stat("1"), version_stat("2", 3)]})
    assert (counters.requests, counters.failures, counters.inferences, counters.executions) == (40, 8, 160, 20)
    assert (counters.cache_hits, counters.cache_misses) == (16, 24)
    assert counters.means_ms["queue"] == 1.0


def test_what_is_absent_is_zero() -> None:
    counters = from_statistics({"model_stats": [{"name": "m", "inference_stats": {"success": {"count": 3}}}]})
    assert (counters.requests, counters.executions, counters.batch_size) == (3, 0, None)


def test_only_what_was_counted_since_counts() -> None:
    before = from_statistics({"model_stats": [version_stat("1")]})
    after = from_statistics({"model_stats": [version_stat("1", 3)]})
    assert after.since(before) == from_statistics({"model_stats": [version_stat("1", 2)]})
    with pytest.raises(NotTold, match="restarted"):
        before.since(after)


@pytest.mark.parametrize(
    "document",
    [
        None, [], "text", 5, {}, {"model_stats": None}, {"model_stats": [{}]}, {"model_stats": ["m"]},
        {"model_stats": [{"inference_stats": []}]}, {"model_stats": [{"inference_stats": {"success": {"count": "x"}}}]},
        {"model_stats": [{"inference_stats": {"success": 5}}]}, {"model_stats": []},
    ],
)  # fmt: skip
def test_another_document_is_refused_in_words(document: Any) -> None:
    with pytest.raises(NotTold, match="statistics"):
        from_statistics(document)

"""What a scrape shows, read back by Prometheus's own parsers."""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from guepard.core.buffers import PoolStatistics
from guepard.core.phases import PHASES
from guepard.core.reasons import FailureReason, LossReason, ReleaseReason
from guepard.telemetry.exposition import OPENMETRICS, PROMETHEUS_TEXT
from guepard.telemetry.metrics import UNMATCHED, MetricsRegistry, ModelGauges, PoolSample, ServerGauges
from guepard.telemetry.statistics import ModelStatistics
from tests.unit.telemetry.executions import Execution, request_that_started_at

ROUTE = "/v2/models/{model}/infer"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
SHARED = {"input": 1_000_000, "compute": 20_000_000, "output": 2_000_000, "encode": 3_000_000}

POOLS = [
    PoolSample("server", "", "", "", PoolStatistics(10, 20, 3, 4, 1, 5)),
    PoolSample("inputs", "m", "1", "0", PoolStatistics(30, 40, 3, 9, 6, 0)),
]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def registry() -> MetricsRegistry:
    return MetricsRegistry(
        "1.2.3", [ROUTE], ServerGauges(lambda: 3, lambda: 5, lambda: 4_096, lambda: 2, lambda: 8_192)
    )


def add_model(registry: MetricsRegistry, name: str = "m", version: str = "1") -> ModelStatistics:
    statistics = ModelStatistics(name, version)
    gauges = ModelGauges(
        losses=lambda: {LossReason.HUNG: 1},
        process_memory=lambda: [1_000, 2_000],
        queue_depth=lambda: 3,
        executing=lambda: 2,
        ready=lambda: True,
        load_duration_ns=lambda: 1_500_000_000,
        engine="openvino",
        precision="bf16",
        engine_ratio=3.5,
        fallback=True,
    )
    registry.add_model(name, version, statistics, gauges)
    return statistics


def families(registry: MetricsRegistry) -> list[Metric]:
    return list(text_string_to_metric_families(registry.render()[0].decode()))


def samples(metrics: Iterable[Metric]) -> Samples:
    return {(s.name, frozenset(s.labels.items())): s.value for metric in metrics for s in metric.samples}


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_counts_of_a_model_are_exposed_in_base_units(registry: MetricsRegistry) -> None:
    statistics = add_model(registry)
    Execution([(4_000_000, 6_000_000)] * 3, SHARED, rows=5, reason=ReleaseReason.FULL).record(statistics)
    statistics.record_failure(request_that_started_at(0), FailureReason.TIMEOUT, 7)
    found = samples(families(registry))
    model = {"model": "m", "version": "1"}

    assert value(found, "guepard_inference_requests_total", **model) == 3
    assert value(found, "guepard_inference_rows_total", **model) == 5
    assert value(found, "guepard_inference_executions_total", **model) == 1
    for failure in FailureReason:
        expected = 1 if failure is FailureReason.TIMEOUT else 0
        assert value(found, "guepard_inference_failures_total", **model, reason=failure.value) == expected
    for release in ReleaseReason:
        expected = 1 if release is ReleaseReason.FULL else 0
        assert value(found, "guepard_batch_release_total", **model, reason=release.value) == expected
    seconds = {"decode": 0.012, "queue": 0.018, "input": 0.003, "compute": 0.06, "output": 0.006, "encode": 0.009}
    assert set(seconds) == set(PHASES)
    for phase, total in {**seconds, "request": sum(seconds.values())}.items():
        assert value(found, f"guepard_inference_{phase}_duration_seconds_sum", **model) == pytest.approx(total)
        assert value(found, f"guepard_inference_{phase}_duration_seconds_count", **model) == 3
    assert value(found, "guepard_inference_compute_duration_seconds_bucket", **model, le="0.01") == 0
    assert value(found, "guepard_inference_compute_duration_seconds_bucket", **model, le="0.025") == 3
    assert value(found, "guepard_batch_size_bucket", **model, le="4.0") == 0
    assert value(found, "guepard_batch_size_bucket", **model, le="8.0") == 1
    assert value(found, "guepard_batch_size_sum", **model) == 5
    assert value(found, "guepard_queue_depth", **model) == 3
    assert value(found, "guepard_executing_requests", **model) == 2
    assert value(found, "guepard_model_ready", **model) == 1
    assert value(found, "guepard_model_load_duration_seconds", **model) == 1.5
    assert value(found, "guepard_model_engine_info", **model, engine="openvino", precision="bf16") == 1
    assert value(found, "guepard_model_engine_ratio", **model) == 3.5


def test_tokens_are_exposed_for_models_with_padding_alone(registry: MetricsRegistry) -> None:
    add_model(registry, "plain")
    add_model(registry, "padded").record_tokens(70, 10)
    add_model(registry, "again").record_tokens(1, 2)
    add_model(registry, "padded").record_tokens(30, 5)
    found = {labels: value for (name, labels), value in samples(families(registry)).items() if "batch_tokens" in name}
    assert {(dict(labels)["model"], dict(labels)["kind"]): value for labels, value in found.items()} == {
        ("padded", "request"): 30,
        ("padded", "padding"): 5,
        ("again", "request"): 1,
        ("again", "padding"): 2,
    }


def test_server_and_process_are_exposed(registry: MetricsRegistry) -> None:
    registry.calls(ROUTE)[200].append(30_000_000)
    registry.calls(ROUTE)[200].append(60_000_000)
    registry.calls(ROUTE)[503].append(1_000)
    found = samples(families(registry))

    assert value(found, "api_request_duration_seconds_sum", route=ROUTE, code="200") == pytest.approx(0.09)
    assert value(found, "api_request_duration_seconds_bucket", route=ROUTE, code="200", le="0.05") == 1
    assert value(found, "api_request_duration_seconds_count", route=ROUTE, code="503") == 1
    assert value(found, "guepard_grpc_calls") == 3
    assert value(found, "guepard_http_connections") == 5
    assert value(found, "guepard_inflight_bytes") == 4_096
    assert value(found, "guepard_log_records_dropped_total") == 2
    assert value(found, "guepard_memory_trimmed_bytes_total") == 8_192
    assert value(found, "process_resident_memory_bytes") > 1_000_000
    assert value(found, "process_cpu_seconds_total") > 0
    build = next(labels for name, labels in found if name == "guepard_build_info")
    assert ("version", "1.2.3") in build


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "new\nline", "} 1\nforged_total 7", "é中\u2028"])
def test_a_label_holds_whatever_a_model_is_called(registry: MetricsRegistry, name: str) -> None:
    add_model(registry, name)
    found = samples(families(registry))
    assert value(found, "guepard_model_ready", model=name, version="1") == 1
    assert not any(sample.startswith("forged") for sample, _ in found)


def test_the_series_of_a_removed_model_vanish(registry: MetricsRegistry) -> None:
    add_model(registry, "stays")
    add_model(registry, "goes")
    registry.remove_model("goes", "1")
    registry.remove_model("never", "1")
    models = {dict(labels)["model"] for _, labels in samples(families(registry)) if "model" in dict(labels)}
    assert models == {"stays"}


def test_random_routes_add_one_series_only(registry: MetricsRegistry) -> None:
    for n in range(5_000):
        registry.calls(f"/random/{n}")[404].append(1_000)
    registry.calls(UNMATCHED)[404].append(1_000)
    found = samples(families(registry))
    routes = {dict(labels)["route"] for _, labels in found if "route" in dict(labels)}
    assert routes == {UNMATCHED}
    assert value(found, "api_request_duration_seconds_count", route=UNMATCHED, code="404") == 5_001


def test_openmetrics_is_written_for_who_asks(registry: MetricsRegistry) -> None:
    Execution([(1, 1)], SHARED, rows=1).record(add_model(registry))
    body, media_type = registry.render(
        "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,*/*;q=0.1"
    )
    assert media_type == OPENMETRICS
    assert body.endswith(b"# EOF\n")
    found = samples(openmetrics_parser.text_string_to_metric_families(body.decode()))  # type: ignore[no-untyped-call]
    assert value(found, "guepard_inference_requests_total", model="m", version="1") == 1


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/plain;version=0.0.4",
        "text/plain;version=x",
        "application/openmetrics-text;version=0.0.1",
        "application/openmetrics-text;version=abc",
        "application/openmetrics-text;version=99999999999999999999",
        "application/openmetrics-text;q=0",
        ";;,=,;version=",
    ],
)
def test_prometheus_text_is_written_for_everyone_else(registry: MetricsRegistry, accept: str) -> None:
    body, media_type = registry.render(accept)
    assert media_type == PROMETHEUS_TEXT
    assert list(text_string_to_metric_families(body.decode()))


def test_the_reference_page_names_exactly_the_families_that_exist(registry: MetricsRegistry) -> None:
    add_model(registry)
    registry.calls(ROUTE)[200].append(1)
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    exposed = re.findall(r"^# TYPE (\w+) (\w+)$", registry.render()[0].decode(), re.MULTILINE)
    assert sorted(listed) == sorted(exposed)


def test_prometheus_client_is_imported_only_when_it_is_needed() -> None:
    program = (
        "import sys, guepard.telemetry.metrics as metrics\n"
        "assert 'prometheus_client' not in sys.modules\n"
        "metrics.prepare()\n"
        "assert 'prometheus_client' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_memory_pools_show_what_they_hold_and_how_that_changed() -> None:
    gauges = ServerGauges(lambda: 3, lambda: 5, lambda: 4_096, lambda: 2, lambda: 0, lambda: POOLS)
    found = samples(families(MetricsRegistry("1.2.3", [ROUTE], gauges)))
    server = {"pool": "server", "model": "", "version": "", "instance": ""}
    inputs = {"pool": "inputs", "model": "m", "version": "1", "instance": "0"}
    for labels, leased, free, grown, shrunk, unpooled in ((server, 10, 20, 4, 1, 5), (inputs, 30, 40, 9, 6, 0)):
        assert value(found, "guepard_memory_pool_bytes", **labels, state="leased") == leased
        assert value(found, "guepard_memory_pool_bytes", **labels, state="free") == free
        assert value(found, "guepard_memory_pool_slabs_total", **labels, change="grown") == grown
        assert value(found, "guepard_memory_pool_slabs_total", **labels, change="shrunk") == shrunk
        assert value(found, "guepard_memory_pool_unpooled_total", **labels) == unpooled

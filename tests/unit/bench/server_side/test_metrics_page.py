"""Pages of metrics, ours, Triton's and strangers', are read as far as they are about inference."""

import pytest

from guepard.bench.server_side.metrics_change import metrics_change
from guepard.bench.server_side.metrics_page import MetricsPage
from guepard.bench.server_side.model_counters import ModelCounters, from_metrics
from guepard.bench.server_side.not_told import NotTold

TRITON = """# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="m",version="1"} 100
nv_inference_request_success{model="m",version="2"} 7
nv_inference_request_success{model="other",version="1"} 1000
nv_inference_request_failure{model="m",reason="REJECTED",version="1"} 2
nv_inference_request_failure{model="m",reason="OTHER",version="1"} 1
nv_inference_count{model="m",version="1"} 400
nv_inference_exec_count{model="m",version="1"} 50
nv_inference_request_duration_us{model="m",version="1"} 300000
nv_inference_queue_duration_us{model="m",version="1"} 50000
nv_inference_compute_input_duration_us{model="m",version="1"} 1000
nv_inference_compute_infer_duration_us{model="m",version="1"} 200000
nv_inference_compute_output_duration_us{model="m",version="1"} 2000
nv_inference_pending_request_count{model="m",version="1"} 3
nv_cache_num_hits_per_model{model="m",version="1"} 30
nv_cache_num_misses_per_model{model="m",version="1"} 70
nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 1e+09
nv_gpu_memory_used_bytes{gpu_uuid="GPU-2"} 2e+09
"""
GUEPARD = """guepard_inference_requests_total{model="m",version="1"} 10.0
guepard_inference_failures_total{model="m",reason="REJECTED",version="1"} 1.0
guepard_inference_rows_total{model="m",version="1"} 40.0
guepard_inference_executions_total{model="m",version="1"} 5.0
guepard_inference_request_duration_seconds_bucket{le="0.1",model="m",version="1"} 10.0
guepard_inference_request_duration_seconds_sum{model="m",version="1"} 0.1
guepard_inference_decode_duration_seconds_sum{model="m",version="1"} 0.001
guepard_inference_queue_duration_seconds_sum{model="m",version="1"} 0.02
guepard_inference_input_duration_seconds_sum{model="m",version="1"} 0.003
guepard_inference_compute_duration_seconds_sum{model="m",version="1"} 0.07
guepard_inference_output_duration_seconds_sum{model="m",version="1"} 0.004
guepard_inference_encode_duration_seconds_sum{model="m",version="1"} 0.002
process_cpu_seconds_total 1.25
process_start_time_seconds 1.7e+09
process_resident_memory_bytes 1.5e+08
"""


def test_samples_are_added_up_over_labels() -> None:
    page = MetricsPage(TRITON)
    assert page.total("nv_inference_request_success", "m") == 107
    assert page.total("nv_inference_request_success", "m", "1") == 100
    assert page.total("nv_gpu_memory_used_bytes", "m") == 3e9
    assert page.total("nv_inference_request_success", "absent") is None
    assert page.total("absent") is None


def test_labels_may_hold_anything_and_lines_may_be_none() -> None:
    page = MetricsPage(
        "# TYPE nv_x counter\n"
        'nv_x{model="a \\"b\\" {c}, d=\\\\",version="1"} 2 1700000000000\n'
        'nv_x{model="line\\nbreak"} 3\n'
        'nv_x{model="m"} NaN\nnv_x{model="m"} +Inf\n'
        'nv_x{model="m" 5\nnv_x\nnv_x five\nnv_ \x00\n'
    )
    assert page.total("nv_x", 'a "b" {c}, d=\\') == 2
    assert page.total("nv_x", "line\nbreak") == 3
    assert page.total("nv_x") == 5
    assert not MetricsPage("<html>no metrics</html>\nhttp_requests_total 5\n")


def test_triton_and_guepard_count_alike() -> None:
    triton = from_metrics(MetricsPage(TRITON), "m", "1")
    assert triton is not None
    assert triton[:3] == (100, 3, 300_000_000)
    assert triton.means_ms == {"queue": 0.5, "input": 0.01, "compute": 2.0, "output": 0.02}
    assert (triton.batch_size, triton.cache_hit_share, triton.request_ms) == (8.0, 0.3, 3.0)
    guepard = from_metrics(MetricsPage(GUEPARD), "m", None)
    assert guepard is not None
    assert guepard.means_ms == pytest.approx(
        {"decode": 0.1, "queue": 2.0, "input": 0.3, "compute": 7.0, "output": 0.4, "encode": 0.2}
    )
    assert (guepard.requests, guepard.failures, guepard.batch_size, guepard.cache_hit_share) == (10, 1, 8.0, None)
    assert from_metrics(MetricsPage(GUEPARD), "other", None) is None


def test_what_moved_is_told() -> None:
    later = (
        GUEPARD.replace('requests_total{model="m",version="1"} 10.0', 'requests_total{model="m",version="1"} 12.0')
        .replace("cpu_seconds_total 1.25", "cpu_seconds_total 1.75")
        .replace("memory_bytes 1.5e+08", "memory_bytes 1.6e+08")
    )
    change = metrics_change(MetricsPage(GUEPARD), MetricsPage(later), "m", "1")
    assert change.values == {
        "guepard_inference_requests_total": 2.0,
        "process_cpu_seconds_total": 0.5,
        "process_resident_memory_bytes": 1.6e8,
    }
    assert change.cpu_s == 0.5
    assert change.counters is not None
    assert change.counters.requests == 2


def test_triton_s_gauges_are_no_counters() -> None:
    change = metrics_change(MetricsPage("process_cpu_seconds_total 1\n"), MetricsPage(TRITON), "m", "1")
    assert change.values["nv_inference_count"] == 400
    assert "nv_inference_pending_request_count" not in change.values
    assert change.values["nv_gpu_memory_used_bytes"] == 3e9
    assert (change.cpu_s, change.counters) == (None, None)


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        (GUEPARD.replace("total 1.25", "total 0.25"), "restarted"),
        (GUEPARD.replace("1.7e+09", "1.70000001e+09"), "restarted"),
        (GUEPARD.replace('rows_total{model="m",version="1"} 40.0', 'rows_total{model="m",version="1"} 3'), "backwards"),
        ("process_cpu_seconds_total 2\n", "unloaded"),
    ],
    ids=["CPU time", "start", "counters", "model"],
)
def test_a_restart_is_said(later: str, reason: str) -> None:
    with pytest.raises(NotTold, match=reason):
        metrics_change(MetricsPage(GUEPARD), MetricsPage(later), "m", "1")


def test_no_requests_have_no_means() -> None:
    nothing = ModelCounters(0, 0, 0, {"queue": 0}, 0, 0, 0, 0)
    assert nothing.means_ms == {}
    assert nothing.request_ms is nothing.batch_size is nothing.cache_hit_share is None

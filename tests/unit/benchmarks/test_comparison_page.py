"""The page and its plots come from the raw data alone."""

import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from benchmarks.comparisons import records
from benchmarks.comparisons.dot_plot import Mark, Row, dot_plot
from benchmarks.comparisons.page import page_text, write_page
from benchmarks.comparisons.plots import plots
from benchmarks.comparisons.records import Comparison
from tests.unit.benchmarks.comparisons import a_comparison, a_failure, a_load, a_peer, an_engine


@pytest.fixture
def comparison() -> Comparison:
    loads = [
        a_load("guepard", form="V2 JSON", setting="defaults", requests_per_second=5_000.0, cpu_us=30.0),
        a_load("guepard", form="V2 JSON", setting="defaults", connections=64, cpu_us=10.0),
        a_load("mosec", cpu_us=100.0, p99_ms=7.5, is_p99_supported=False),
        a_load("mosec", connections=64, failed=12, cpu_us=20.0, requests_per_second=9_000.0, is_quiet=False),
    ]
    return a_comparison(*loads, engine=(an_engine("mlp", 64, 123_456.0),))


def row_of(text: str, *cells: str) -> str:
    (row,) = [line for line in text.splitlines() if line.startswith("|") and all(cell in line for cell in cells)]
    return row


def test_raw_data_are_read_as_they_were_written(tmp_path: Path, comparison: Comparison) -> None:
    path = tmp_path / "results" / "raw.json"
    records.write(path, comparison)
    assert records.read(path) == comparison
    assert len(path.read_text().splitlines()) > len(comparison.loads) + len(comparison.starts)


def test_raw_data_of_another_version_are_refused(tmp_path: Path, comparison: Comparison) -> None:
    path = tmp_path / "raw.json"
    records.write(path, msgspec.structs.replace(comparison, version=99))
    with pytest.raises(msgspec.ValidationError, match="guepard-comparison 99, not guepard-comparison 1"):
        records.read(path)


def test_the_page_tells_ratios_and_whether_they_are_met(comparison: Comparison) -> None:
    text = page_text(comparison, "folder")
    assert row_of(text, "CPU per request, JSON, 1 connection").endswith("| 0.30 × | ≤ 0.4 × | yes |")
    assert row_of(text, "CPU per request, JSON, 64 connections").endswith("| 0.50 × | ≤ 0.4 × | no |")


def test_each_point_is_a_row_the_fastest_first(comparison: Comparison) -> None:
    text = page_text(comparison, "folder")
    first, second = re.findall(r"### MLP, 64 connections\n\n(?:\|.*\n){2}(\|.*)\n(\|.*)\n", text)[0]
    assert first.startswith("| MOSEC | JSON | batches | 9,000 | 20.0 |")
    assert first.endswith("| 12 |")
    assert second.startswith("| **Guepard** | V2 JSON | defaults |")


def test_a_percentile_of_too_few_requests_is_in_brackets(comparison: Comparison) -> None:
    assert "| (7.50) |" in page_text(comparison, "folder")


def test_start_and_memory_are_told_of_the_lasting_setting(comparison: Comparison) -> None:
    assert "| MOSEC | batches | 1.00 | 2 | 90 / 70 | 100 / 80 |" in page_text(comparison, "folder")


def test_machine_commit_disturbances_and_versions_are_told(comparison: Comparison) -> None:
    text = page_text(comparison, "folder")
    for told in (
        "A processor, 2 cores",
        "commit 0123456789ab",
        "disturbed 1 of 4 loads",
        "`mosec` 1.2.3",
        "Python 3.11.7",
        "123,456 rows/s in batches of 64",
        "the same file on ONNX Runtime 1.32.0",
    ):
        assert told in text


def test_what_json_costs_is_told_of_those_who_take_both() -> None:
    told = {"model": "resnet50", "connections": 8}
    loads = [
        a_load("mosec", requests_per_second=16.0, **told),
        a_load("mosec", form="raw bytes", kind="binary", requests_per_second=23.0, **told),
        a_load("triton", **told),
    ]
    engine = (an_engine("mlp", 1, 125_000.0),)
    text = page_text(a_comparison(*loads, models=("resnet50",), engine=engine), "folder")
    assert "  - MOSEC, ResNet-50 at 8 connections: 16.0 requests/s in JSON, 23.0 as raw bytes.\n- **Start.**" in text
    assert "Triton, ResNet-50" not in text
    assert "the engine takes 8.0 µs of a request" in text


def test_a_quick_run_says_so(comparison: Comparison) -> None:
    assert "quick run" not in page_text(comparison, "folder")
    assert "quick run" in page_text(msgspec.structs.replace(comparison, is_quick=True), "folder")


def test_another_engine_is_pointed_at(comparison: Comparison) -> None:
    peers = (*comparison.peers, a_peer("ray", "Ray Serve", onnxruntime="1.30.0"))
    text = page_text(msgspec.structs.replace(comparison, peers=peers), "folder")
    assert "Not all run the same ONNX Runtime (1.30.0, 1.32.0)" in text


def test_who_could_not_be_measured_is_told_with_the_reason(comparison: Comparison) -> None:
    failures = (a_failure("ray", "not installed: no `wheel`\n| for this"),)
    text = page_text(msgspec.structs.replace(comparison, failures=failures), "folder")
    assert "- ray, all, all, all: `not installed: no 'wheel' / for this`" in text


def test_the_page_of_a_run_without_a_single_load_is_still_a_page() -> None:
    text = page_text(a_comparison(), "folder")
    assert "Nothing was measured." in text
    assert "Not measured in this run." in text


def test_every_picture_of_the_page_is_written_and_no_old_one_stays(tmp_path: Path, comparison: Comparison) -> None:
    page = tmp_path / "comparison.md"
    old = tmp_path / "comparison" / "gone-rate.svg"
    old.parent.mkdir()
    old.write_text("<svg/>")
    write_page(comparison, page)
    shown = set(re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text()))
    assert shown == {str(path.relative_to(tmp_path)) for path in (tmp_path / "comparison").iterdir()}
    assert not old.exists()


def test_plots_are_well_formed_and_hold_every_contender(comparison: Comparison) -> None:
    for svg in plots(comparison).values():
        text = "".join(ElementTree.fromstring(svg).itertext())
        assert "Guepard" in text
        assert "MOSEC" in text


def test_a_plot_places_larger_figures_further_right_and_escapes_names() -> None:
    rows = [Row("<a>", False, (Mark(0, 10.0, 10.0, 10.0),)), Row("b", True, (Mark(0, 100.0, 50.0, 200.0),))]
    root = ElementTree.fromstring(dot_plot("T", "ms", ["only"], rows, description="d"))
    circles = [float(each.attrib["cx"]) for each in root.iter("{http://www.w3.org/2000/svg}circle")]
    assert circles == sorted(circles)
    assert len(circles) == 2
    assert "<a>" in "".join(root.itertext())

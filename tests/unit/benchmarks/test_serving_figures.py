"""What the serving benchmarks make of their samples, and whom they ask."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.serving import bodies, connections, cpu_quota, many_models, metrics_cost, quota, unmetered_server
from benchmarks.serving.cpu_quota import CpuQuota, NoQuotaError
from benchmarks.serving.load import LoadResult
from benchmarks.serving.payload import HEADER_LENGTH
from benchmarks.serving.process import Observation
from benchmarks.serving.report import Figure
from benchmarks.serving.run import QUESTIONS
from benchmarks.serving.sample import LoadSample

README = Path(__file__).parents[3] / "benchmarks" / "README.md"


def load(side: str, cpu_us: float, connections: int = 1, rate: float = 1_000.0) -> LoadSample:
    result = LoadResult(connections, 1_000, 0, rate, 1, 2, 3)
    return LoadSample(side, result, Observation(1.0, cpu_us / 1_000, 0.0, 0.0))


def value(figures: list[Figure], name: str) -> float:
    (found,) = [figure.value for figure in figures if figure.name == name]
    return found


def met(figures: list[Figure]) -> dict[str, bool]:
    return {figure.name: bool(figure.is_met) for figure in figures if figure.target is not None}


def _module(ask: Any) -> str:
    """Where a question is defined, which may be asked of several models."""
    module: str = getattr(ask, "func", ask).__module__
    return module


def test_every_question_has_its_row_in_the_readme() -> None:
    text = README.read_text()
    assert not [
        name for name, ask in QUESTIONS.items() if f"`serving/{_module(ask).rpartition('.')[2]}.py`" not in text
    ]


def test_connections_are_compared_within_a_turn() -> None:
    samples = [
        load(side, cost * slow, count)
        for slow in (1.0, 3.0, 1.0)
        for side in ("JSON", "binary")
        for count, cost in {1: 50, 4: 40, 16: 41, 64: 20, 256: 24}.items()
    ]
    figures = connections.figures(samples, 5_000.0)
    assert value(figures, "JSON, 256 connections / 64") == pytest.approx(1.2)
    assert value(figures, "JSON, largest step up to 64") == pytest.approx(1.025)
    assert not met(figures)["JSON, 256 connections / 64"]
    assert met(figures)["JSON, largest step up to 64"]


def test_copies_are_what_is_more_than_the_bare_echo() -> None:
    def turn(size: int, ours: float, bare: float, copy: float) -> bodies.Turn:
        return bodies.Turn(size, load("guepard", ours), load("echo", bare), copy)

    costs = {1 << 10: (100, 50, 1), 1 << 15: (110, 55, 2), 1 << 20: (600, 300, 100), 1 << 23: (4_100, 2_000, 800)}
    turns = [turn(size, *figures) for size, figures in costs.items()] + [turn(1 << 26, 32_100, 16_000, 8_060)]
    figures = bodies.figures(turns, 2 << 26)
    assert value(figures, "body of 64 MB, more than the bare echo") == pytest.approx(2.0, abs=0.01)
    assert value(figures, "a byte at 64 MB / at 1 MB") == pytest.approx(1.0)
    assert value(figures, "64 MB under way, resident beyond idle") == 2.0
    assert all(met(figures).values())


def test_a_body_is_as_large_as_it_says() -> None:
    payload = bodies.payload(1 << 15)
    head = int(payload.headers[HEADER_LENGTH])
    assert len(payload.body) - head == 1 << 15
    assert b'"shape":[1,8192]' in payload.body[:head]


def test_models_are_told_by_what_each_adds(tmp_path: Path) -> None:
    samples = [
        (count, load("", 20.0 + count / 100, at)) for at in many_models.CONNECTIONS for count in many_models.COUNTS
    ]
    figures = many_models.figures(
        samples, {1: 0.5, 50: 1.0, 200: 2.49}, {1: 80_000_000, 50: 129_000_000, 200: 429_000_000}
    )
    assert value(figures, "resident per model, from 1 to 50") == 1.0
    assert value(figures, "resident per model, from 50 to 200") == 2.0
    assert value(figures, "ready later per model, up to 200") == pytest.approx(10.0)
    assert value(figures, "200 models / 1, 8 conn., CPU per request") == pytest.approx(22 / 20.01)
    arguments = many_models.copies(tmp_path, 2)
    assert [Path(argument.partition("=")[2]).stat().st_size > 0 for argument in arguments] == [True, True]


def test_recording_may_cost_two_per_cent_or_a_microsecond() -> None:
    def turn(metered: float, bare: float) -> dict[str, list[LoadSample]]:
        return {
            "as it is": [load("", metered, at) for at in metrics_cost.CONNECTIONS],
            "no recording": [load("", bare, at) for at in metrics_cost.CONNECTIONS],
        }

    for bare, more, is_met in ((20, 0.9, True), (20, 1.1, False), (100, 1.9, True), (100, 2.1, False)):
        figures = metrics_cost.figures([turn(bare + more, bare)])
        targets = [figure.is_met for figure in figures if figure.target and figure.unit == "µs CPU/request"]
        assert targets == [is_met] * len(metrics_cost.CONNECTIONS)


def test_the_recorders_that_are_taken_out_exist() -> None:
    assert all(callable(getattr(owner, recorder)) for owner, recorder in unmetered_server.RECORDERS)


def test_the_default_is_held_against_the_best_by_hand() -> None:
    rates = {quota.DEFAULT: 90.0, "1 on a thread": 80.0, "2 on threads": 100.0, "1 on the loop": 50.0}
    turns = [
        quota.Turn(model, load(side, 10.0, quota.CONNECTIONS, rate), 20, 5)
        for model in ("mlp", "minilm")
        for side, rate in rates.items()
    ]
    figures = quota.figures(turns)
    assert value(figures, "1 CPU, mlp, default, of the best by hand") == pytest.approx(90.0)
    assert value(figures, "1 CPU, mlp, 2 on threads, throttled periods") == 25.0


def test_where_no_quota_can_be_had_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(cpus: float) -> None:
        raise NoQuotaError("read-only")

    monkeypatch.setattr(quota, "cpu_quota", refuse)
    answer = quota.measure(None)  # type: ignore[arg-type]
    assert [figure.name for figure in answer.figures] == ["quota: cannot be measured here: read-only"]
    assert "read-only" in capsys.readouterr().err


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cpu_quota, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "written"),
    [
        ({"cpu/tasks": ""}, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}),
        ({"cgroup.controllers": "cpuset cpu io\n"}, {"cpu.max": "150000 100000"}),
    ],
    ids=["v1", "v2"],
)
def test_a_quota_is_written_as_the_kernel_reads_it(
    hierarchy: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], written: dict[str, str]
) -> None:
    for name, text in files.items():
        (hierarchy / name).parent.mkdir(exist_ok=True)
        (hierarchy / name).write_text(text)
    controllers = "cpu,cpuacct" if "cpu/tasks" in files else ""
    membership = hierarchy / "membership"
    membership.write_text(f"3:{controllers}:/elsewhere\n")
    monkeypatch.setattr(cpu_quota, "MEMBERSHIP", membership)
    with cpu_quota.cpu_quota(1.5) as group:
        assert {path.name: path.read_text() for path in group.directory.iterdir()} == written
        for path in group.directory.iterdir():
            path.unlink()  # the kernel's own files go with their directory
    assert not group.directory.exists()


def test_without_a_hierarchy_there_is_no_quota(hierarchy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_quota, "MEMBERSHIP", hierarchy / "membership")
    (hierarchy / "membership").write_text("0::/\n")
    with pytest.raises(NoQuotaError, match="no cgroup hierarchy"), cpu_quota.cpu_quota(1):
        pass


def test_a_group_runs_a_command_inside_and_counts_its_periods(tmp_path: Path) -> None:
    group = CpuQuota(tmp_path)
    (tmp_path / "cpu.stat").write_text("nr_periods 20\nnr_throttled 3\nthrottled_time 17\n")
    assert group.periods() == (20, 3)
    told = subprocess.run([*group.prefix, "sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout
    assert (tmp_path / "cgroup.procs").read_text() == told

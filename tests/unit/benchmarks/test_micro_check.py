"""When a case counts as slower, and what is said of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.micro import check
from benchmarks.micro.timing import baseline
from benchmarks.micro.timing.baseline import Baseline, Baselines
from benchmarks.micro.timing.processes import Times
from benchmarks.micro.timing.rounds import Time

CASE, OTHER = "scatter: a batch of 8", "gather: a batch of 8"
STEADY = Baseline(1.0, 0.98, 1.03)


def times(**ratios: float) -> Times:
    names = {"case": CASE, "other": OTHER}
    return {names[name]: Time(1_000.0, ratio, ratio, ratio) for name, ratio in ratios.items()}


def checked(monkeypatch: pytest.MonkeyPatch, *runs: Times) -> int:
    """The exit code when the processes tell `runs`, one after another."""
    following = iter(runs)
    monkeypatch.setattr(check, "time_in_processes", lambda *_: next(following))
    code = check.check(Baselines(baseline.here(), {CASE: STEADY, OTHER: STEADY}))
    assert next(following, None) is None
    return code


@pytest.mark.parametrize(
    ("known", "limit"), [(STEADY, 1.25), (Baseline(1.0, 0.8, 1.2), 1.8)], ids=["steady", "restless"]
)
def test_the_limit_is_a_quarter_more_or_what_the_noise_needs(known: Baseline, limit: float) -> None:
    assert known.limit == pytest.approx(limit)


def test_nothing_slower_is_a_pass(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(monkeypatch, times(case=1.24, other=0.5)) == 0
    assert "none of 2 cases is slower" in capsys.readouterr().out


def test_what_is_slower_twice_is_named_with_both_ratios(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(monkeypatch, times(case=1.4, other=1.0), times(case=1.5)) == 1
    *_, heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["slower", "before", "limit", "now", "change"]
    assert line.split() == [*CASE.split(), "1.000", "1.250", "1.500", "+50%"]


def test_what_is_slower_once_is_noise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In one process of the second look is enough: others on the machine make a case slower, and never faster."""
    restless = {CASE: Time(1_000.0, 1.4, 1.1, 1.6)}
    assert checked(monkeypatch, times(case=1.4, other=1.0), restless) == 0
    assert f"{CASE}: 1.400, but from 1.100 on when timed alone: noise" in capsys.readouterr().out


def test_cases_that_came_or_went_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    new = "lone_sense: a turn with one request"
    assert checked(monkeypatch, times(case=1.0) | {new: Time(1, 1, 1, 1)}) == 0
    told = capsys.readouterr().out
    assert f"{new}: new, without a baseline" in told
    assert f"{OTHER}: gone" in told


def test_baselines_are_read_as_they_were_kept(tmp_path: Path) -> None:
    path = tmp_path / "baselines" / "micro.json"
    assert baseline.read(path) is None
    baseline.update({CASE: Time(5_000, 1.23456, 1.2, 1.3)}, path)
    known = baseline.read(path)
    assert known is not None
    assert known.cases == {CASE: Baseline(1.2346, 1.2, 1.3)}
    assert known.where == baseline.here()


def test_other_interpreters_have_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "micro.json"
    baseline.update(times(case=1.0), path)
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    assert baseline.read(path) is None
    baseline.update(times(case=2.0), path)
    known = baseline.read(path)
    assert known is not None
    assert known.cases[CASE].ratio == 2.0
    monkeypatch.undo()
    known = baseline.read(path)
    assert known is not None
    assert known.cases[CASE].ratio == 1.0


def test_without_baselines_it_says_how_to_make_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(baseline, "read", lambda: None)
    monkeypatch.setattr("sys.argv", ["check"])
    assert check.main() == check.NO_BASELINE
    assert "python -m benchmarks.micro.check --update" in capsys.readouterr().out


def test_an_update_writes_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[Times] = []
    processes: list[int] = []

    def timed(chosen: Sequence[str], rounds: int, count: int) -> Times:
        processes.append(count)
        return times(case=1.0)

    monkeypatch.setattr(check, "time_in_processes", timed)
    monkeypatch.setattr(baseline, "update", kept.append)
    monkeypatch.setattr("sys.argv", ["check", "--update"])
    assert check.main() == 0
    assert kept == [times(case=1.0)]
    assert processes == [check.UPDATE_PROCESSES]


def test_what_differs_from_then_is_told() -> None:
    now = baseline.here()
    then = now | {"processor": "Abacus", "packages": now["packages"] | {"numpy": "1.0"}, "commit": "0"}
    assert baseline.differences(then, now) == [
        f"processor: Abacus then, {now['processor']} now",
        f"numpy: 1.0 then, {now['packages']['numpy']} now",
    ]
    assert not baseline.differences(now, now)

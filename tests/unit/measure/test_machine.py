"""Where a measurement was made."""

import os
import subprocess
from pathlib import Path

import pytest

from guepard.measure.machine import commit_of, describe_machine, software_versions

CPUINFO = "processor\t: 0\nmodel name\t: Some  CPU @ 3.00GHz\n\nprocessor\t: 1\nmodel name\t: Some  CPU @ 3.00GHz\n"


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # a hook that runs the tests sets them
    git(tmp_path, "init", "-q")
    (tmp_path / "model.py").write_text("one\n")
    return tmp_path


def test_this_machine_is_described(tmp_path: Path) -> None:
    machine = describe_machine(1.5)
    assert machine.cpu
    assert machine.cores == os.cpu_count()
    assert machine.cpu_budget == 1.5
    assert machine.memory_bytes > 1 << 27
    assert "Linux" in machine.system


def test_the_cpu_and_the_distribution_have_their_names(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    (tmp_path / "os-release").write_text('NAME="Some"\nPRETTY_NAME="Some Linux 7"\n')
    machine = describe_machine(2, proc=tmp_path, etc=tmp_path)
    assert machine.cpu == "Some CPU @ 3.00GHz"
    assert machine.system.startswith("Some Linux 7, Linux ")


def test_without_files_to_read_there_is_still_a_description(tmp_path: Path) -> None:
    machine = describe_machine(2, proc=tmp_path, etc=tmp_path)
    assert machine.cpu == os.uname().machine
    assert machine.system.startswith(os.uname().sysname)


def test_versions_are_those_of_what_is_installed() -> None:
    versions = software_versions(("numpy", "no-such-package"))
    assert list(versions) == ["python", "numpy"]
    assert versions["python"][0] == "3"


def test_the_commit_is_that_of_the_folder_and_says_if_files_differ(repository: Path) -> None:
    assert commit_of(repository) is None
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "first")
    git(repository, "tag", "-a", "v1", "-m", "a tag, which is not a commit")
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "untracked").mkdir()
    assert commit_of(repository / "untracked") == commit
    (repository / "model.py").write_text("two\n")
    assert commit_of(repository) == f"{commit}-dirty"


def test_a_repository_cannot_have_git_run_a_program_of_its_own(repository: Path) -> None:
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "first")
    git(repository, "config", "core.fsmonitor", f"touch {repository}/ran; false")
    assert commit_of(repository)
    assert not (repository / "ran").exists()


def test_there_is_no_commit_outside_a_repository_or_without_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "inside").mkdir()
    assert commit_of(tmp_path / "inside") is None
    monkeypatch.setenv("PATH", "")
    assert commit_of(tmp_path) is None

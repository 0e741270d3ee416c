"""The CI jobs of the how-to are YAML, and every command in them is one that `guepard bench` takes."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from guepard.cli.main import find_verb, verb_parser
from guepard.cli.switches import given
from guepard.settings.bench_reading import BENCH_BY_KEY, read_bench_options

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "bench-in-ci.md"
TEXT = PAGE.read_text()
JOBS: list[dict[str, Any]] = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)]


def scripts() -> list[str]:
    """What the jobs and the page have a shell run."""
    found = re.findall(r"^guepard .*$", TEXT, re.MULTILINE)
    for job in JOBS:
        if "jobs" in job:
            steps = [step for each in job["jobs"].values() for step in each["steps"]]
            found += [step["run"] for step in steps if "run" in step]
        else:
            found += [line for each in job.values() for line in each["script"]]
    return found


def files_of(job: dict[str, Any]) -> set[str]:
    """What a job keeps."""
    if "jobs" in job:
        steps = [step for each in job["jobs"].values() for step in each["steps"]]
        return {path for step in steps for path in str(step.get("with", {}).get("path", "")).split()}
    artifacts = [each["artifacts"] for each in job.values()]
    return {path for each in artifacts for path in [*each["paths"], each["reports"]["junit"]]}


COMMANDS = [script for script in scripts() if script.startswith("guepard bench")]


def test_there_are_jobs_for_github_and_gitlab() -> None:
    assert sum("jobs" in job for job in JOBS) == 1
    assert sum("jobs" not in job for job in JOBS) == 2
    assert len(COMMANDS) == 5


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_taken(command: str) -> None:
    parser = verb_parser("bench", find_verb("bench"))
    arguments = parser.parse(shlex.split(command)[2:])
    options = read_bench_options(arguments.target, given(arguments, BENCH_BY_KEY))
    assert options.output.out is not None or options.gate_limit is not None


@pytest.mark.parametrize("job", JOBS, ids=["github", "gitlab", "own machine"])
def test_every_file_that_is_written_is_kept(job: dict[str, Any]) -> None:
    text = yaml.safe_dump(job, width=10_000)
    written = set(re.findall(r"--(?:junit|report|out) (\S+)", text))
    assert written
    assert written <= files_of(job)

"""Where a measurement was made: the machine, the versions of software, the commit of the working directory."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from guepard.measure.results import Machine

_PACKAGES = ("numpy", "msgspec", "uvloop", "httptools", "grpcio", "onnxruntime")
_GIT_TIMEOUT_S = 2.0


def describe_machine(cpu_budget: float, proc: Path = Path("/proc"), etc: Path = Path("/etc")) -> Machine:
    """This machine. `cpu_budget` is how many CPUs the process may use, which the caller knows. Cost: under 1 ms."""
    return Machine(
        cpu=_cpu(proc),
        cores=os.cpu_count() or 1,
        cpu_budget=cpu_budget,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=_system(etc),
    )


def software_versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str]:
    """Python and those of `packages` that are installed. Cost: about 1 ms a package, nothing is imported."""
    found = {"python": f"{platform.python_version()} ({sys.implementation.name})"}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit_of(folder: Path) -> str | None:
    """The commit checked out in `folder`, with `-dirty` after it where tracked files differ from it.

    None without git, outside a repository, before the first commit, and where git does not answer within two seconds.
    Cost: one process, some 5 ms.
    """
    # What a repository's own configuration could make git run is switched off.
    command = [
        "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(folder),
        "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*",
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours, git is looked up where the user looks it up
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _cpu(proc: Path) -> str:
    try:
        with (proc / "cpuinfo").open(errors="replace") as file:
            # The first block says it. The rest is one block a core, for each of which the kernel asks the core.
            head = file.read(4096)
    except OSError:
        return platform.machine()
    fields = dict(_fields(head))
    return fields.get("model name") or fields.get("Model") or fields.get("cpu") or platform.machine()


def _fields(text: str) -> list[tuple[str, str]]:
    pairs = [line.partition(":") for line in reversed(text.splitlines())]
    return [(key.strip(), " ".join(value.split())) for key, colon, value in pairs if colon]


def _system(etc: Path) -> str:
    name = os.uname()
    kernel = f"{name.sysname} {name.release} {name.machine}"
    try:
        lines = (etc / "os-release").read_text(errors="replace").splitlines()
    except OSError:
        return kernel
    for line in lines:
        if line.startswith("PRETTY_NAME="):
            return f"{line.partition('=')[2].strip().strip(chr(34))}, {kernel}"
    return kernel

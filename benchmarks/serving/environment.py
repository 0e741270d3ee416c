"""Where and with what a benchmark ran: machine, versions, commit."""

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("guepard", "onnxruntime", "numpy", "uvloop", "httptools", "msgspec", "orjson")


def describe() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {
            "cpu": cpu_model(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}",
        },
        "versions": {
            "python": platform.python_version(),
            "wrk": wrk_version(),
            **{package: version(package) for package in PACKAGES},
        },
    }


def headline(environment: dict[str, Any]) -> str:
    """The same in three lines."""
    machine, versions = environment["machine"], environment["versions"]
    return "\n".join(
        (
            f"machine   {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}",
            "versions  " + ", ".join(f"{name} {number}" for name, number in versions.items()),
            f"commit    {environment['commit']}, {environment['date']}",
        )
    )


def cpu_model() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.machine()


def commit() -> str:
    """The short hash, marked when the tree differs from it; "unknown" outside a repository."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


def wrk_version() -> str:
    """The first word after `wrk` in its usage text, which is where it tells its version."""
    usage = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"wrk (\S+)", usage)
    return match[1] if match else "unknown"

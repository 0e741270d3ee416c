"""What a server's process holds in memory, as Linux tells it."""

from pathlib import Path

from guepard.testing.running_server import RunningServer


def rss_mib(server: RunningServer) -> float:
    """Resident now."""
    return _status_mib(server, "VmRSS")


def peak_rss_mib(server: RunningServer) -> float:
    """The most that ever was resident."""
    return _status_mib(server, "VmHWM")


def _status_mib(server: RunningServer, field: str) -> float:
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) / 1_024
    raise AssertionError(f"no {field}")

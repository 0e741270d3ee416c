"""How `guepard bench` ends: by itself, by Ctrl-C, by a signal; and what it leaves behind."""

from pathlib import Path

from tests.services.bench_command import (
    BenchCommand,
)
from tests.services.known_servers import KnownServer
from tests.services.waiting import wait_until

LOAD = ("--protocol", "http", "--warmup", "0s", "--no-self-test")
LONG = (*LOAD, "--rate", "100", "--duration", "50s", "--json")


def wait_for_load(server: KnownServer, command: BenchCommand) -> list[int]:
    """Until the generator sends. Process ids of what the command has started."""
    wait_until(lambda: len(command.children()) > 0, 20.0)
    port = f":{server.port:04X} "
    mine = "0100007F" + port

    def is_asked() -> bool:
        return sum(mine in line.split(" ", 3)[3] for line in connections()) > 2

    wait_until(is_asked, 20.0)
    return [*command.children()]


def connections() -> list[str]:
    return Path("/proc/net/tcp").read_text().splitlines()[1:]

"""What a benchmark starts is measured whole and ended whole."""

import sys
import textwrap
from pathlib import Path

import pytest

from benchmarks.serving.contender import NotServing, running
from benchmarks.serving.process import memory, process_tree, read_stat

FAMILY = textwrap.dedent("""
    import os, pathlib, signal, sys, time
    if os.fork() == 0:
        if os.fork():
            os._exit(0)  # the grandchild loses its parent
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path("orphan.partial").write_text(str(os.getpid()))
        os.rename("orphan.partial", "orphan")
        time.sleep(600)
    os.wait()
    signal.sigwait({signal.SIGTERM})
""")


def test_a_process_without_a_parent_stays_in_the_tree_and_ends_with_it(tmp_path: Path) -> None:
    orphan = tmp_path / "orphan"

    def is_adopted() -> bool:
        if not orphan.exists():
            return False
        stat = read_stat(int(orphan.read_text()))
        return stat is not None and stat.parent != 1

    command = [sys.executable, "-c", FAMILY]
    with running("family", command, is_adopted, cwd=tmp_path, is_family=True) as (pid, started_in_s):
        number = int(orphan.read_text())
        assert number in {stat.pid for stat in process_tree(pid)}
        assert memory(pid).processes == 2
        assert memory(pid).rss_bytes >= memory(pid).pss_bytes > 0
        assert started_in_s > 0
    left = read_stat(number)
    assert left is None or left.state == "Z"


def test_a_server_that_ends_early_shows_the_end_of_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such model')"]
    with (
        pytest.raises(NotServing, match=r"short ended with 1 after .*\n.*no such model"),
        running("short", command, lambda: False, environment={}, cwd=tmp_path),
    ):
        pass

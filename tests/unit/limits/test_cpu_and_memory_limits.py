"""What the kernel allows this process, read from the files that cgroups v1 and v2 keep, on made-up trees."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from guepard.limits.cpu_budget import cpu_budget
from guepard.limits.memory_limit import GIB, default_inflight_bytes, memory_limit

MACHINE_CPUS = len(os.sched_getaffinity(0))
MACHINE_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MIB = 2**20


@pytest.fixture
def many_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))


def tree(folder: Path, membership: str, files: Mapping[str, str]) -> tuple[Path, Path]:
    """The root of a cgroup file system that holds `files`, and the file that says where this process belongs."""
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "self").write_text(membership)
    return folder / "cgroup", folder / "self"


V2 = "0::/kube/pod\n"
V1 = "12:cpu,cpuacct:/kube/pod\n4:memory:/kube/pod\n1:name=systemd:/kube/pod\n"


@pytest.mark.usefixtures("many_cpus")
class TestCpus:
    @pytest.mark.parametrize(
        ("membership", "files", "expected"),
        [
            (V2, {"kube/pod/cpu.max": "200000 100000\n"}, 2),
            (V2, {"kube/pod/cpu.max": "max 100000\n"}, 64),
            (V2, {"kube/pod/cpu.max": "250000 100000\n"}, 2),
            (V2, {"kube/pod/cpu.max": "50000 100000\n"}, 1),
            (V2, {"kube/pod/cpu.max": "1000000 100000\n", "kube/cpu.max": "300000 100000\n"}, 3),
            (V2, {"kube/pod/cpu.max": "max 100000\n", "cpu.max": "700000 100000\n"}, 7),
            (V2, {"kube/pod/cpu.max": "9900000 100000\n"}, 64),
            (V2, {"kube/pod/cpu.max": ""}, 64),
            (V2, {}, 64),
            ("0::/\n", {"cpu.max": "400000 100000\n"}, 4),
            ("", {"cpu.max": "400000 100000\n"}, 64),
            (
                V1,
                {"cpu/kube/pod/cpu.cfs_quota_us": "150000\n", "cpu/kube/pod/cpu.cfs_period_us": "50000\n"},
                3,
            ),
            (V1, {"cpu/kube/pod/cpu.cfs_quota_us": "-1\n", "cpu/kube/pod/cpu.cfs_period_us": "100000\n"}, 64),
            (V1, {"cpu/kube/cpu.cfs_quota_us": "500000\n", "cpu/kube/cpu.cfs_period_us": "100000\n"}, 5),
            (
                V1 + "0::/\n",
                {"cpu/kube/pod/cpu.cfs_quota_us": "500000\n", "cpu/kube/pod/cpu.cfs_period_us": "100000"},
                5,
            ),
        ],
    )
    def test_the_tightest_quota_on_the_way_up_counts(
        self, tmp_path: Path, membership: str, files: dict[str, str], expected: int
    ) -> None:
        assert cpu_budget(*tree(tmp_path, membership, files)) == expected

    def test_without_cgroups_the_affinity_counts(self, tmp_path: Path) -> None:
        assert cpu_budget(tmp_path, tmp_path / "missing") == 64


def test_no_more_than_the_affinity_of_this_process(tmp_path: Path) -> None:
    assert cpu_budget(*tree(tmp_path, V2, {"kube/pod/cpu.max": "6400000 100000"})) == MACHINE_CPUS


def test_the_real_machine_gives_at_least_one_cpu() -> None:
    assert 1 <= cpu_budget() <= MACHINE_CPUS


class TestMemory:
    @pytest.mark.parametrize(
        ("membership", "files", "expected"),
        [
            (V2, {"kube/pod/memory.max": f"{64 * MIB}\n"}, 64 * MIB),
            (V2, {"kube/pod/memory.max": "max\n"}, MACHINE_BYTES),
            (V2, {"kube/pod/memory.max": f"{64 * MIB}\n", "kube/memory.max": f"{32 * MIB}\n"}, 32 * MIB),
            (V2, {"memory.max": f"{16 * MIB}\n"}, 16 * MIB),
            (V2, {}, MACHINE_BYTES),
            ("", {"memory.max": f"{16 * MIB}\n"}, MACHINE_BYTES),
            (V1, {"memory/kube/pod/memory.limit_in_bytes": f"{48 * MIB}\n"}, 48 * MIB),
            (V1, {"memory/kube/pod/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE_BYTES),
            (V1, {"memory/memory.limit_in_bytes": f"{48 * MIB}\n"}, 48 * MIB),
        ],
    )
    def test_the_tightest_limit_on_the_way_up_counts(
        self, tmp_path: Path, membership: str, files: dict[str, str], expected: int
    ) -> None:
        assert memory_limit(*tree(tmp_path, membership, files)) == expected

    def test_without_cgroups_the_machine_s_memory_counts(self, tmp_path: Path) -> None:
        assert memory_limit(tmp_path, tmp_path / "missing") == MACHINE_BYTES

    def test_bodies_get_a_quarter_of_it_and_a_gibibyte_at_most(self) -> None:
        assert default_inflight_bytes() == min(GIB, memory_limit() // 4)

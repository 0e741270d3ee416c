"""What the kernel allows this process, read from the files that cgroups v1 and v2 keep, on made-up trees."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from guepard.limits.cgroup import governing_directories
from guepard.limits.cpu_budget import CpuBudget, cpu_budget
from guepard.limits.memory_limit import GIB, default_inflight_bytes, default_pool_bytes, memory_limit

MACHINE_CPUS = len(os.sched_getaffinity(0))
MACHINE_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MIB = 2**20

# Mounts as Linux lists them: group and mount point, with what stands around them. {root} is where the tree begins.
V2_MOUNT = "30 24 0:26 / {root} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "24 1 8:1 / / rw - ext4 /dev/vda rw\n"
    "31 24 0:28 / {root} ro - tmpfs tmpfs ro,mode=755\n"
    "32 31 0:29 / {root}/systemd rw - cgroup cgroup rw,name=systemd\n"
    "33 31 0:30 / {root}/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / {root}/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 / {root}/memory rw,relatime - cgroup cgroup rw,memory\n"
)
HYBRID_MOUNTS = V1_MOUNTS + "36 31 0:38 / {root}/unified rw,relatime - cgroup2 cgroup2 rw\n"

V2 = "0::/kube/pod\n"
V1 = "12:cpu,cpuacct:/kube/pod\n5:cpuset:/kube/pod\n4:memory:/kube/pod\n1:name=systemd:/kube/pod\n"


@pytest.fixture
def many_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))


def process(folder: Path, membership: str, files: Mapping[str, str], mounts: str | None = None) -> Path:
    """The folder in `/proc` of a process with this membership, where `files` are what cgroups are mounted."""
    root = folder / "cgroup"
    for name in ("cpu,cpuacct/kube/pod", "memory/kube/pod", "kube/pod"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if mounts is None:
        mounts = V1_MOUNTS if "cpu" in membership else V2_MOUNT
    own = folder / "self"
    own.mkdir()
    (own / "cgroup").write_text(membership)
    (own / "mountinfo").write_text(mounts.format(root=root))
    return own


def quota(cpus: float, folder: str) -> dict[str, str]:
    """Files of a v1 cgroup that allows `cpus`."""
    return {f"{folder}/cpu.cfs_quota_us": f"{int(cpus * 50_000)}\n", f"{folder}/cpu.cfs_period_us": "50000\n"}


@pytest.mark.usefixtures("many_cpus")
class TestCpus:
    @pytest.mark.parametrize(
        ("membership", "files", "expected"),
        [
            (V2, {"kube/pod/cpu.max": "200000 100000\n"}, 2),
            (V2, {"kube/pod/cpu.max": "max 100000\n"}, 64),
            (V2, {"kube/pod/cpu.max": "250000 100000\n"}, 2.5),
            (V2, {"kube/pod/cpu.max": "50000 100000\n"}, 0.5),
            (V2, {"kube/pod/cpu.max": "1000000 100000\n", "kube/cpu.max": "300000 100000\n"}, 3),
            (V2, {"kube/pod/cpu.max": "max 100000\n", "cpu.max": "700000 100000\n"}, 7),
            (V2, {"kube/pod/cpu.max": "9900000 100000\n"}, 64),
            (V2, {"kube/pod/cpu.max": ""}, 64),
            (V2, {}, 64),
            ("0::/\n", {"cpu.max": "400000 100000\n"}, 4),
            ("", {"cpu.max": "400000 100000\n"}, 64),
            (V1, quota(3, "cpu,cpuacct/kube/pod"), 3),
            (V1, quota(1.5, "cpu,cpuacct/kube/pod"), 1.5),
            (V1, {"cpu,cpuacct/kube/pod/cpu.cfs_quota_us": "-1\n"}, 64),
            (V1, quota(5, "cpu,cpuacct/kube"), 5),
            (V1 + "0::/\n", quota(5, "cpu,cpuacct/kube/pod"), 5),
        ],
    )
    def test_the_tightest_quota_on_the_way_up_counts(
        self, tmp_path: Path, membership: str, files: dict[str, str], expected: float
    ) -> None:
        assert cpu_budget(process(tmp_path, membership, files)).exact == expected

    @pytest.mark.parametrize(
        ("membership", "files", "expected"),
        [
            (V2, {"kube/pod/cpuset.cpus.effective": "0-3,8\n"}, 5),
            (V2, {"kube/pod/cpuset.cpus.effective": "7\n"}, 1),
            (V2, {"kube/cpuset.cpus.effective": "0-1\n", "cpuset.cpus.effective": "0-63\n"}, 2),
            (V2, {"kube/pod/cpuset.cpus": "\n"}, 64),
            (V2, {"kube/pod/cpuset.cpus": "0-99\n"}, 64),
            (V1, {"cpuset/kube/pod/cpuset.effective_cpus": "1,3\n", "cpuset/kube/pod/cpuset.cpus": "0-7\n"}, 2),
            (V1, {"cpuset/kube/pod/cpuset.cpus": "0-7\n"}, 8),
        ],
    )
    def test_the_smallest_cpuset_on_the_way_up_counts(
        self, tmp_path: Path, membership: str, files: dict[str, str], expected: int
    ) -> None:
        assert cpu_budget(process(tmp_path, membership, files)).exact == expected

    def test_without_cgroups_the_affinity_counts(self, tmp_path: Path) -> None:
        assert cpu_budget(tmp_path) == CpuBudget(64)


class TestMounts:
    """The same quota of 2 CPUs, found wherever it may lie."""

    @pytest.mark.parametrize(
        ("membership", "mounts", "files"),
        [
            pytest.param(
                "4:cpu,cpuacct:/a\n0::/a\n",
                HYBRID_MOUNTS,
                quota(2, "cpu,cpuacct/a"),
                id="hybrid, the controller in v1",
            ),
            pytest.param(
                "4:memory:/a\n0::/a\n",
                HYBRID_MOUNTS,
                {"unified/a/cpu.max": "200000 100000"},
                id="hybrid, the controller in v2",
            ),
            pytest.param(
                "4:cpu:/docker/7f\n",
                "33 31 0:30 /docker/7f {root}/cpu rw - cgroup cgroup rw,cpu\n",
                quota(2, "cpu"),
                id="container, v1: its own group is what is mounted",
            ),
            pytest.param(
                "4:cpu:/docker/7f/inner\n",
                "33 31 0:30 /docker/7f {root}/cpu rw - cgroup cgroup rw,cpu\n",
                quota(2, "cpu/inner"),
                id="a group inside a container, v1",
            ),
            pytest.param(
                "0::/docker/7f\n",
                V2_MOUNT,
                {"cpu.max": "200000 100000"},
                id="container: the path of the host leads nowhere here",
            ),
            pytest.param(
                "0::/../../pod\n",
                V2_MOUNT,
                {"cpu.max": "200000 100000", "pod/cpu.max": "100000 100000"},
                id="outside of the namespace",
            ),
            pytest.param(
                "0::/../pod\n",
                "30 24 0:26 /.. {root} rw - cgroup2 cgroup2 rw\n",
                {"pod/cpu.max": "200000 100000"},
                id="mounted from outside of the namespace",
            ),
            pytest.param(
                "0::/a\n",
                "30 24 0:26 / {root}/my\\040groups rw - cgroup2 cgroup2 rw\n",
                {"my groups/a/cpu.max": "200000 100000"},
                id="a mount point with a space",
            ),
            pytest.param(
                "0::/a\n",
                "40 24 0:26 /other {root}/other rw - cgroup2 cgroup2 rw\n" + V2_MOUNT,
                {"other/cpu.max": "100000 100000", "a/cpu.max": "200000 100000"},
                id="another group's mount does not count",
            ),
        ],
    )
    def test_found(self, tmp_path: Path, membership: str, mounts: str, files: dict[str, str]) -> None:
        assert cpu_budget(process(tmp_path, membership, files, mounts)).quota == 2

    def test_the_way_leads_from_the_group_to_its_mount_point(self, tmp_path: Path) -> None:
        own = process(tmp_path, V1, {}, V1_MOUNTS)
        root = tmp_path / "cgroup" / "cpu,cpuacct"
        assert list(governing_directories("cpu", own)) == [root / "kube/pod", root / "kube", root]


class TestRounding:
    @pytest.mark.parametrize(
        ("quota", "cpus"),
        [(None, 8), (64, 8), (4, 4), (4.75, 4), (2.75, 3), (2.5, 2), (1.5, 2), (1.25, 1), (1, 1), (0.2, 1), (7.9, 7)],
    )
    def test_down_unless_more_than_a_fifth_would_lie_idle(self, quota: float | None, cpus: int) -> None:
        assert CpuBudget(affinity=8, quota=quota).cpus == cpus

    def test_the_exact_figure_stays_to_be_had(self) -> None:
        assert CpuBudget(affinity=8, cpuset=4, quota=1.5).exact == 1.5

    def test_it_says_where_it_comes_from(self) -> None:
        assert str(CpuBudget(8, 4, 1.5)) == "quota 1.5, cpuset 4, affinity 8"
        assert str(CpuBudget(8)) == "quota none, cpuset none, affinity 8"


def test_no_more_than_the_affinity_of_this_process(tmp_path: Path) -> None:
    assert cpu_budget(process(tmp_path, V2, {"kube/pod/cpu.max": "6400000 100000"})).cpus == MACHINE_CPUS


def test_the_real_machine_gives_at_least_one_cpu() -> None:
    assert 1 <= cpu_budget().cpus <= MACHINE_CPUS


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
        assert memory_limit(process(tmp_path, membership, files)) == expected

    def test_without_cgroups_the_machine_s_memory_counts(self, tmp_path: Path) -> None:
        assert memory_limit(tmp_path) == MACHINE_BYTES

    def test_bodies_get_a_quarter_of_it_and_a_gibibyte_at_most(self) -> None:
        assert default_inflight_bytes() == min(GIB, memory_limit() // 4)
        assert default_pool_bytes() == min(GIB, memory_limit() // 8)

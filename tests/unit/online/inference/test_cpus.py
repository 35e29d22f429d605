import os
from pathlib import Path

import pytest

from online.inference.cpus import available_cpus

CORES = len(os.sched_getaffinity(0))


def host(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": cgroup, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/", {"sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1),
        ("0::/", {"sys/fs/cgroup/cpu.max": "20000 100000\n"}, 1),
        ("0::/", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, CORES),
        ("0::/", {"sys/fs/cgroup/cpu.max": "1000000000 100000\n"}, CORES),
        (
            "0::/a/b",
            {"sys/fs/cgroup/a/cpu.max": "100000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"},
            1,
        ),
        ("0::/not/in/this/mount", {"sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1),
        (
            "4:cpu,cpuacct:/k\n3:memory:/m",
            {"sys/fs/cgroup/cpu/k/cpu.cfs_quota_us": "50000", "sys/fs/cgroup/cpu/k/cpu.cfs_period_us": "50000"},
            1,
        ),
        (
            "4:cpu,cpuacct:/k",
            {"sys/fs/cgroup/cpu/k/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/k/cpu.cfs_period_us": "50000"},
            CORES,
        ),
        ("0::/", {"sys/fs/cgroup/cpu.max": "nonsense"}, CORES),
    ],
)
def test_a_quota_cuts_the_affinity_down(tmp_path: Path, cgroup: str, files: dict[str, str], expected: int) -> None:
    assert available_cpus(host(tmp_path, cgroup, files)) == expected


def test_without_control_groups_the_affinity_counts(tmp_path: Path) -> None:
    assert available_cpus(tmp_path) == CORES

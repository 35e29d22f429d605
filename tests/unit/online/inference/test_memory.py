"""What memory is left: the host's, and the tightest of the control groups' limits, in both of Linux's layouts."""

from pathlib import Path

import pytest

from online.inference.memory import available_bytes

MIB = 1 << 20
UNIFIED = {
    "proc/self/cgroup": "0::/pod/box\n",
    "sys/fs/cgroup/pod/box/memory.max": f"{400 * MIB}\n",
    "sys/fs/cgroup/pod/box/memory.current": f"{300 * MIB}\n",
    "sys/fs/cgroup/pod/box/memory.stat": f"anon 1\ninactive_file {50 * MIB}\n",
}


def root_with(folder: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": f"MemTotal: 9 kB\nMemAvailable: {1000 << 10} kB\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "left_mib"),
    [
        ({}, 1000),
        (UNIFIED, 150),  # pages of files would be given up
        ({**UNIFIED, "sys/fs/cgroup/pod/box/memory.max": "max\n"}, 1000),
        (
            {
                "proc/self/cgroup": "7:cpu:/\n4:memory:/box\n",
                "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{100 * MIB}\n",
                "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{40 * MIB}\n",
                "sys/fs/cgroup/memory/box/memory.stat": "cache 0\n",
            },
            60,
        ),
        (
            {
                **UNIFIED,
                "sys/fs/cgroup/pod/memory.max": f"{60 * MIB}\n",
                "sys/fs/cgroup/pod/memory.current": f"{20 * MIB}\n",
                "sys/fs/cgroup/pod/memory.stat": "anon 0\n",
            },
            40,  # the parent's is tighter
        ),
    ],
)
def test_the_tightest_limit_counts(tmp_path: Path, files: dict[str, str], left_mib: int) -> None:
    assert available_bytes(root_with(tmp_path, files)) == left_mib * MIB


def test_a_system_that_does_not_tell_gives_none(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None

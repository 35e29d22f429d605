"""How many cores this process may use: its affinity, cut down by the CPU quota of its control group.

`os.cpu_count()` is the host's; a container of two cores on a host of sixteen would start eight times its threads.
Standard library only.
"""

import os
from math import ceil
from pathlib import Path

from online.inference.control_groups import group_folders


def available_cpus(root: Path = Path("/")) -> int:
    """At least 1. `root` is where `proc` and `sys` are looked for."""
    quota = _quota(root)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores if quota is None else min(cores, ceil(quota)))


def _quota(root: Path) -> float | None:
    """The tightest quota on the way from this process's control group to the root, in cores; None for none."""
    quotas = [_folder_quota(folder) for folder in group_folders(root, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def _folder_quota(folder: Path) -> float | None:
    """Version 2 writes `cpu.max` as `quota period`, version 1 a file each; `max` and -1 mean none."""
    try:
        if (unified := folder / "cpu.max").exists():
            quota, period = unified.read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
    except (OSError, ValueError):
        return None
    if not quota.isdigit() or not period.isdigit() or int(quota) <= 0 or int(period) <= 0:
        return None
    return int(quota) / int(period)

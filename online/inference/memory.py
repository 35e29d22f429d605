"""How much memory a process may still take: what the host has, cut down by the limit of its control group.

Standard library only.
"""

from pathlib import Path

from online.inference.control_groups import group_folders


def available_bytes(root: Path = Path("/")) -> int | None:
    """None where the system does not tell. `root` is where `proc` and `sys` are looked for."""
    left = [_group_left(folder) for folder in group_folders(root, "memory")]
    known = [count for count in [_host_left(root), *left] if count is not None]
    return min(known, default=None)


def _host_left(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def _group_left(folder: Path) -> int | None:
    """Version 2 writes `memory.max` and `memory.current`, version 1 other names; `max` means none.

    Pages of files count as used, though they would be given up: they are added back.
    """
    names = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    for limit_name, used_name in names:
        try:
            limit, used = (folder / limit_name).read_text().strip(), (folder / used_name).read_text().strip()
            statistics = (folder / "memory.stat").read_text().split()
        except OSError:
            continue
        if not limit.isdigit() or not used.isdigit():
            return None
        kept = dict(zip(statistics[::2], statistics[1::2], strict=False)).get("inactive_file", "0")
        return int(limit) - int(used) + int(kept)
    return None

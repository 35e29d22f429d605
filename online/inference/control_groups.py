"""Where Linux keeps the limits of this process's control group. Standard library only."""

from pathlib import Path


def group_folders(root: Path, controller: str) -> list[Path]:
    """Folders of the process's group and its parents, for `cpu` or `memory`; none where there are no groups."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    folders: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        # In a container the mount often is the group itself, so every parent of the path is looked at too.
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        here = mount / path.strip("/")
        folders += [here, *(parent for parent in here.parents if parent.is_relative_to(mount))]
    return folders

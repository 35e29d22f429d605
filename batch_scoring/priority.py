"""A load that is slow on purpose gives way: whoever answers look-ups on this machine goes first.

Linux keeps a niceness for each thread, and what a thread starts has its own from it.
"""

import os
from contextlib import suppress
from pathlib import Path

from batch_scoring.settings import BatchSettings

NICE = 10
# Of what drives the load: it loses executors whose heartbeats it is too late for.
DRIVER_NICE = 5


def give_way(settings: BatchSettings) -> None:
    """Of this thread, where `max_entities_per_s` limits the load."""
    if settings.max_entities_per_s:
        _lower(0, NICE)


def have_driver_give_way(pid: int, settings: BatchSettings) -> None:
    """As `give_way`, of all threads of a process of the same user, and not as much."""
    if settings.max_entities_per_s:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            _lower(int(thread.name), DRIVER_NICE)


def _lower(thread: int, nice: int) -> None:
    # One that has just ended, or is another user's; a load must not fail for that.
    with suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, thread) < nice:
            os.setpriority(os.PRIO_PROCESS, thread, nice)

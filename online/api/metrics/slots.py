"""Numbered places of the workers in the folder of metrics: who replaces a dead worker goes on with its files.

prometheus-client names its files by process id. With those, each worker that ever died leaves files that every
scrape reads and sums, for ever. A place is locked for as long as its worker lives, so it is free once that died.
"""

import fcntl
import time
from itertools import count
from pathlib import Path
from typing import IO

from prometheus_client import values

# Workers of a parent that was killed hold their places for a moment longer.
_WAIT_S, _PAUSE_S = 1.0, 0.02


class Slot:
    """A worker's place; held until it is closed or the process ends."""

    def __init__(self, number: int, lock: IO[bytes]) -> None:
        self.number, self._lock = number, lock

    def close(self) -> None:
        self._lock.close()


def take_slot(folder: Path, workers: int) -> Slot:
    """The first free place; to be called before any metric is made. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + _WAIT_S
    while time.monotonic() < until_s:
        for number in range(workers):
            if (lock := _locked(folder, number)) is not None:
                return _use(folder, Slot(number, lock))
        time.sleep(_PAUSE_S)
    return _use(folder, next(Slot(number, lock) for number in count(workers) if (lock := _locked(folder, number))))


def forget_dead(folder: Path) -> None:
    """Removes the gauges of dead workers; their counters stay, since totals may not fall."""
    for path in folder.glob("gauge_live*_*.db"):
        number = path.stem.rpartition("_")[2]
        if number.isdigit() and (lock := _locked(folder, int(number))) is not None:
            # While the place is held nobody else begins to write that file.
            with lock:
                path.unlink(missing_ok=True)


def _locked(folder: Path, number: int) -> IO[bytes] | None:
    lock = (folder / f"slot-{number}.lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def _use(folder: Path, slot: Slot) -> Slot:
    for path in folder.glob(f"gauge_*_{slot.number}.db"):
        path.unlink(missing_ok=True)
    # Its own way to choose the files' names, which its documentation offers; without a folder it has no files.
    if values.ValueClass._multiprocess:
        values.ValueClass = values.MultiProcessValue(lambda: slot.number)  # type: ignore[no-untyped-call]
    return slot

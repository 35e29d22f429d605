"""Who works on which hours: one run at a model, one task at an hour, also beside what a killed run has left."""

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from batch_scoring.requestlog.hours import WORKING, Hour, NotPossible

# Hours have a byte each of the file to lock, counted from the epoch. What the file says is whose turn it is.
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Turn:
    """A run's right to work on a model's hours; goes with its tasks. Ends when another begins.

    Locks are the kernel's, of a byte of a file: they end with the process that holds them, over NFS too.
    """

    path: Path
    id: str

    @classmethod
    def begin(cls, root: Path, model: str) -> Self:
        """To be called by who holds the model's log. Raises NotPossible while a task of an earlier turn runs."""
        path = root / WORKING / f"model={model}.turn"
        with path.open("a+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                raise NotPossible(
                    f"tasks of an earlier compaction of {model} still run; try again when they have ended"
                ) from None
            turn = cls(path, uuid.uuid4().hex)
            file.truncate(0)
            file.write(turn.id.encode())
        return turn

    @contextmanager
    def at(self, hour: Hour) -> Iterator[None]:
        """Waits for whoever is at this hour. Raises NotPossible where another turn has begun."""
        number = int(hour.begin.timestamp()) // _HOUR_S
        with self.path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, number, os.SEEK_SET)
            if file.read().decode() != self.id:
                raise NotPossible(f"{hour.name}: another compaction has begun")
            yield

"""What the demo shows: a line for each step with its time, and a moving one for what takes long."""

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

# Where output goes to a file, nothing says how wide a line may be.
CONSOLE = Console(file=sys.stdout, highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 120)
_SAY_EVERY_S = 2.0


@contextmanager
def step(title: str) -> Iterator[None]:
    """Says what begins, and when it is done how long it took."""
    began = time.monotonic()
    CONSOLE.print(f"[bold]▸ {title}[/bold]")
    yield
    CONSOLE.print(f"  [green]done[/green] in {time.monotonic() - began:.1f} s")


def say(line: str) -> None:
    """A line of progress below a step; never read as markup."""
    CONSOLE.print(f"  {line}", markup=False, style="dim")


class _SayLogs(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def show_logs(*names: str) -> None:
    """Our own loggers' lines become lines of progress."""
    for name in names:
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.handlers = [_SayLogs()]
        logger.propagate = False


class Count:
    """A bar on a terminal; elsewhere a line every few seconds."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._last = time.monotonic()
        columns = (TextColumn(f"  {what}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=CONSOLE, transient=True) if CONSOLE.is_terminal else None
        self._task = self._progress.add_task(what, total=total) if self._progress else None

    def __call__(self, done: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.start()
            self._progress.update(self._task, completed=done)
            if done >= self._total:
                self._progress.stop()
        elif done >= self._total or time.monotonic() - self._last > _SAY_EVERY_S:
            self._last = time.monotonic()
            say(f"{self._what}: {done:,} of {self._total:,}")


def show_table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place == 1 else "left", no_wrap=place < 2)
    for row in rows:
        table.add_row(*row)
    CONSOLE.print()
    CONSOLE.print(table)

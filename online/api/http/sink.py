"""Where answers leave their rows."""

from typing import Protocol

from online.api.requestlog.columns import Row
from online.api.requestlog.hit_rows import HitRows


class RowSink(Protocol):
    """Takes rows of a log; never waits, never fails."""

    def add(self, model: str, row: Row) -> None: ...


class LogSink(RowSink, Protocol):
    """Takes rows of the request log."""

    @property
    def hits(self) -> HitRows:
        """For plain hits."""

    def refuse(self, code: str) -> None:
        """Counts a request for no model that exists."""

"""Where answers leave their rows."""

from collections.abc import Mapping
from typing import Protocol

from online.api.requestlog.columns import Row
from online.api.requestlog.hit_rows import HitRows


class LogSink(Protocol):
    """Takes rows of the request log; never waits, never fails."""

    @property
    def hits(self) -> Mapping[str, HitRows]:
        """For plain hits, by model."""

    def add(self, model: str, row: Row) -> None: ...

    def refuse(self, code: str) -> None:
        """Counts a request for no model that exists."""

"""Where answers leave their rows."""

from typing import Protocol


class LogSink(Protocol):
    """Takes rows of the request log; never waits, never fails."""

    def add(self, model: str, row: tuple[object, ...]) -> None: ...

    def refuse(self, code: str) -> None:
        """Counts a request for no model that exists."""

"""The request log's buffer of one worker: rows in, columns out once a second.

Appending one tuple is all that an answer pays; a row is whole or not there, whatever fails in
between. Rows become columns where they leave the buffer, in the writer's thread.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence

Row = tuple[object, ...]
Columns = list[Sequence[object]]


class LogBuffer:
    """Appended to by the event loop, taken from by the writer's thread, by atomic operations of a deque."""

    def __init__(self, models: Sequence[str], max_rows: int) -> None:
        self._max_rows = max_rows
        self._rows: dict[str, deque[Row]] = {model: deque() for model in models}
        self._refused: deque[str] = deque(maxlen=max_rows)
        self.dropped = 0

    def add(self, model: str, row: Row) -> None:
        rows = self._rows[model]
        if len(rows) >= self._max_rows:
            self.dropped += 1
        else:
            rows.append(row)

    def refuse(self, code: str) -> None:
        """A request for no model that exists: counted, since no log is its own."""
        self._refused.append(code)

    def take(self) -> dict[str, Columns]:
        """The columns of each model that has rows, in the order of the log's schema; they leave the buffer."""
        taken: dict[str, Columns] = {}
        for model, rows in self._rows.items():
            if found := [rows.popleft() for _ in range(len(rows))]:
                taken[model] = [*zip(*found, strict=True)]
        return taken

    def take_refused(self) -> Mapping[str, int]:
        return Counter(self._refused.popleft() for _ in range(len(self._refused)))

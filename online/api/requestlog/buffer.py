"""The request log's buffer of one worker: rows in, columns out once a second.

Appending is all that an answer pays; a row is whole or not there, whatever fails in between. Rows become
columns where they leave the buffer, in the writer's thread.
"""

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from online.api.requestlog.columns import Columns, Row
from online.api.requestlog.hit_columns import columns_of
from online.api.requestlog.hit_rows import HitRows
from online.api.requestlog.queues import left
from online.api.requestlog.samples import Samples

log = logging.getLogger(__name__)


class LogBuffer:
    """Appended to by the event loop, taken from by the writer's thread, by atomic operations of a deque."""

    def __init__(self, models: Sequence[str], max_rows: int) -> None:
        """`max_rows`: that wait for the writer, of each model."""
        self._max_rows = max_rows
        self._rows: dict[str, deque[Row]] = {model: deque() for model in models}
        self._refused: deque[str] = deque(maxlen=max_rows)
        self._dropped = 0

    @property
    def dropped(self) -> int:
        return self._dropped

    def add(self, model: str, row: Row) -> None:
        rows = self._rows[model]
        if len(rows) >= self._max_rows:
            self._dropped += 1
        else:
            rows.append(row)

    def refuse(self, code: str) -> None:
        """A request for no model that exists: counted, since no log is its own."""
        self._refused.append(code)

    def take(self) -> list[tuple[str, Columns]]:
        """Columns with their model, in the order of the log's schema; a model may have several. They leave."""
        taken: list[tuple[str, Columns]] = []
        for model, rows in self._rows.items():
            if found := left(rows):
                taken.append((model, [*zip(*found, strict=True)]))
        return taken

    def take_refused(self) -> Mapping[str, int]:
        return Counter(left(self._refused))


class RequestBuffer(LogBuffer):
    """That of requests, most of which are plain hits.

    Attributes:
        hits: their rows, of which `max_rows` may wait too.
    """

    def __init__(self, models: Sequence[str], max_rows: int, samples: Samples) -> None:
        super().__init__(models, max_rows)
        self.hits, self._samples = HitRows(max_rows), samples
        self._lost = 0

    @property
    def dropped(self) -> int:
        return super().dropped + self.hits.dropped + self._lost

    def take(self) -> list[tuple[str, Columns]]:
        taken: list[tuple[str, Columns]] = []
        for hits in self.hits.take():
            model, rows = hits.lane.version.model, len(hits.told)
            try:
                taken.append((model, columns_of(hits, self._samples)))
            except Exception:
                # What one lane's hits bring costs the others' nothing.
                log.exception("rows of hits are lost", extra={"model": model, "rows": rows})
                self._lost += rows
            hits.let_go()
        return taken + super().take()

"""What a worker tells its node, one line of JSON a report on a pipe; and its orders, a line each, the other way.

A line is shorter than `PIPE_BUF`, so it is written whole or not at all.
"""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Self

import orjson

MAX_LINE_BYTES = 4096
DRAIN = b"drain"
_THREADS = b"threads "
# Upper bounds of the histograms that a worker keeps: rows of a batch, and seconds that one occupied the device.
ROWS_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
BUSY_BOUNDS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
# Exit statuses of a worker; anything else is a crash.
EXIT_DRAINED = 0
EXIT_REFUSED = 3
_MAX_REASON = 500


def threads_order(threads: int) -> bytes:
    return _THREADS + str(threads).encode()


def threads_of(order: bytes) -> int | None:
    """Of that order; None of another."""
    return int(order.removeprefix(_THREADS)) if order.startswith(_THREADS) else None


def bucket_name(histogram: str, place: int) -> str:
    """Of the count of values up to the bound at `place`, or beyond the last."""
    return f"{histogram}_{place}"


class State(StrEnum):
    """Of a version. `failed`: its bundle was refused or its worker has ended; it will be tried again."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    DRAINING = "draining"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Report:
    """A worker's state. Model and version are None until the manifest was read, `address` until it is ready.

    Attributes:
        table: measured (rows, ms) of batches, of which tau0_ms + alpha_ms * rows is the fit.
        executing_ms: how long the batch on the device has been there.
        queue_age_ms: how long the first of the rows that wait has waited.
        busy_share: of the time since the last report.
        counts: totals since the worker's start, by name; of histograms by `bucket_name`, where there are any.
    """

    state: State
    reason: str = ""
    model: str | None = None
    version: str | None = None
    address: str | None = None
    max_batch_rows: int | None = None
    tau0_ms: float | None = None
    alpha_ms: float | None = None
    table: list[tuple[int, float]] = field(default_factory=list)
    queued_rows: int = 0
    executing_rows: int = 0
    executing_ms: float = 0.0
    queue_age_ms: float = 0.0
    busy_share: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    def to_line(self) -> bytes:
        line = orjson.dumps({**asdict(self), "reason": self.reason[:_MAX_REASON]}) + b"\n"
        assert len(line) <= MAX_LINE_BYTES, "a report may not be split"
        return line

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Raises ValueError where the line is no report."""
        try:
            document = orjson.loads(line)
            return cls(**{**document, "state": State(document["state"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"no report: {error}") from None

"""One device of the live tier, what is asked of it, and the batch it is sized by. Pure.

In this order: T(b) of at least four sizes; the batch, at most the knee and half the latency budget; its throughput
times 0.6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from online.planning.batching import BatchMs, checked_time, line_knee_rows
from online.planning.checks import OutOfRange, counts, not_negative, positive
from online.planning.outside import NOTHING, Outside
from schemas.capacity import TARGET_UTILISATION, BatchTime, fitting_rows

LEAST_UTILISATION = 0.01


@dataclass(frozen=True)
class Replica:
    """One device of the live tier.

    Attributes:
        time: the line; what sizes batches, unless `measured` is given because no line fits.
        knee: the batch whose doubling gains little, where it was measured; else the line's.
        outside: of an answer's latency, what is spent outside queue and device: the API, the network.
    """

    time: BatchTime
    max_batch_rows: int
    price_per_hour: float
    knee: int | None = None
    outside: Outside = NOTHING
    measured: BatchMs | None = None

    def __post_init__(self) -> None:
        checked_time(self.time.tau0_ms, self.time.alpha_ms)
        counts(max_batch_rows=self.max_batch_rows)
        not_negative(price_per_hour=self.price_per_hour)

    def batch_ms(self, rows: int) -> float:
        return self.time.batch_ms(rows) if self.measured is None else self.measured(rows)

    @cached_property
    def knee_rows(self) -> int:
        """At most the cap; the cap where throughput still grows there."""
        if self.knee is not None:
            return min(self.knee, self.max_batch_rows)
        return (
            min(line_knee_rows(self.time), self.max_batch_rows) if self.time.alpha_ms > 0 else self.max_batch_rows
        )

    def fitting_rows(self, room_ms: float, batches: float = 2) -> int:
        """The largest of which so many, one after another, and what its rows take outside are within a time.

        One row where none is.
        """
        row_ms = self.outside.row_ms / batches
        if self.measured is None:
            time = BatchTime(self.time.tau0_ms, self.time.alpha_ms + row_ms)
            return fitting_rows(time, self.max_batch_rows, room_ms / batches)
        sizes = range(1, self.max_batch_rows + 1)
        return max((rows for rows in sizes if self.batch_ms(rows) + row_ms * rows <= room_ms / batches), default=1)


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked for. `budget_per_month` in dollars, None for any."""

    p99_ms: float
    utilisation: float = TARGET_UTILISATION
    budget_per_month: float | None = None

    def __post_init__(self) -> None:
        positive(p99_ms=self.p99_ms)
        if not LEAST_UTILISATION <= self.utilisation < 1:
            allowed = f"a share above 0 and below 1, at least {LEAST_UTILISATION:g}"
            raise OutOfRange("utilisation", self.utilisation, allowed)
        if self.budget_per_month is not None:
            positive(budget_per_month=self.budget_per_month)


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch that a replica is sized by.

    Attributes:
        most_ms: what a batch may take: half of the goal, since a request that has just missed one waits for it;
            with half of what its rows take outside.
        fitting_rows, knee_rows: its two limits besides the device's cap; `rows` is the smaller.
        queue_delay_ms: the most that an idle device may wait for company without missing the goal.
        per_replica_per_s: its throughput times the utilisation asked for.
    """

    most_ms: float
    fitting_rows: int
    knee_rows: int
    rows: int
    batch_ms: float
    rows_per_s: float
    queue_delay_ms: float
    per_replica_per_s: float


def size_batch(replica: Replica, goal: Goal) -> Batch:
    """Raises OutOfRange where not even one row alone is answered in time."""
    outside = replica.outside
    room_ms = goal.p99_ms - outside.fixed_ms
    least = replica.batch_ms(1) + outside.mean_ms(1)
    if least > goal.p99_ms:
        raise OutOfRange("p99_ms", f"{goal.p99_ms:g}", f"at least {least:.4g}, what one request alone takes")
    fitting = replica.fitting_rows(room_ms)
    rows = min(fitting, replica.knee_rows)
    batch_ms = replica.batch_ms(rows)
    rate = 1e3 * rows / batch_ms
    delay_ms = max(0.0, room_ms - outside.row_ms * rows - 2 * batch_ms)
    return Batch(room_ms / 2, fitting, replica.knee_rows, rows, batch_ms, rate, delay_ms, goal.utilisation * rate)


def table_of_batches(
    replica: Replica, sizes: Sequence[int] | None = None
) -> list[tuple[int, float, float, float]]:
    """(rows, T in ms, rows a second, what doubling gains as a share) for 1, 2, 4 … the cap, or the sizes given."""
    chosen = sizes or sorted({min(1 << power, replica.max_batch_rows) for power in range(17)})

    def rate(rows: int) -> float:
        return 1e3 * rows / replica.batch_ms(rows)

    return [(rows, replica.batch_ms(rows), rate(rows), rate(2 * rows) / rate(rows) - 1) for rows in chosen]

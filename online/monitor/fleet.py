"""The fleet estimate: replicas that the busiest minute needs, without precomputing and with it. Pure.

The busiest minute of all requests sizes the fleet without precomputing; the busiest minute of the tail, which may
be another one, sizes it with. A mean hit rate would hide the minutes in which the hot set does not help.
"""

from dataclasses import dataclass

from schemas.capacity import TARGET_UTILISATION, BatchTime, SizedFleet, replica_rows_per_s, size_fleet


@dataclass(frozen=True, slots=True)
class MeasuredReplica:
    """T(b) of one version on one node, as the node reported it."""

    node: str
    version: str
    time: BatchTime
    max_batch_rows: int
    reported_at_ms: int
    device: str | None = None

    @property
    def is_emulated(self) -> bool:
        return self.device is not None and self.device.startswith("emulated")


@dataclass(frozen=True, slots=True)
class PeakMinute:
    """Requests of the busiest minute, which began at `minute` (minutes since the epoch)."""

    minute: int
    requests: int

    @property
    def per_s(self) -> float:
        return self.requests / 60


@dataclass(frozen=True, slots=True)
class FleetEstimate:
    """Both fleets, and what they are sized by. Loads are the counts before rounding up, in replicas."""

    replica: MeasuredReplica
    max_batch_ms: float
    utilisation: float
    all_live: SizedFleet
    tail: SizedFleet

    @property
    def largest_batch_rows(self) -> int:
        """Fits `max_batch_ms`, or is one row."""
        return self.all_live.largest_rows

    @property
    def rows_per_s(self) -> float:
        """What one replica may be given."""
        return self.all_live.per_replica_per_s

    @property
    def load_without(self) -> float:
        return self.all_live.load

    @property
    def load_with(self) -> float:
        return self.tail.load

    @property
    def without(self) -> int:
        return self.all_live.replicas

    @property
    def with_precomputing(self) -> int:
        return self.tail.replicas

    @property
    def saved(self) -> int:
        return self.without - self.with_precomputing

    @property
    def is_row_over_slo(self) -> bool:
        """Even a batch of one row takes longer than a batch may."""
        return self.replica.time.batch_ms(1) > self.max_batch_ms


def slowest(replicas: list[MeasuredReplica], slo_ms: float) -> MeasuredReplica | None:
    """The replica that may be given the least: an estimate built on it holds for the others too."""
    return min(replicas, key=lambda r: (_rows_per_s(r, slo_ms / 2), r.node), default=None)


def estimate(
    replica: MeasuredReplica, all_peak: PeakMinute, tail_peak: PeakMinute, slo_ms: float
) -> FleetEstimate:
    """Replicas for both peaks.

    Args:
        slo_ms: what an answer may take. A row that arrives just after a batch has begun waits for it and is then
            answered by the next, so a batch may take half of this.
    """
    max_batch_ms = slo_ms / 2

    def sized(peak: PeakMinute) -> SizedFleet:
        return size_fleet(replica.time, replica.max_batch_rows, peak.per_s, max_batch_ms)

    return FleetEstimate(replica, max_batch_ms, TARGET_UTILISATION, sized(all_peak), sized(tail_peak))


def _rows_per_s(replica: MeasuredReplica, max_batch_ms: float) -> float:
    return replica_rows_per_s(replica.time, replica.max_batch_rows, max_batch_ms)

"""The fleet estimate against cases computed by hand."""

import pytest

from online.monitor.fleet import MeasuredReplica, PeakMinute, estimate, slowest
from schemas.capacity import BatchTime


def replica(node: str = "a", tau0_ms: float = 6.0, alpha_ms: float = 1.2, rows: int = 64) -> MeasuredReplica:
    return MeasuredReplica(node, "7", BatchTime(tau0_ms, alpha_ms), rows, 0)


def test_by_hand() -> None:
    """A batch may take 50 ms: (50 - 6) / 1.2 = 36 rows in 49.2 ms; 0.6 x 36 / 49.2 ms = 439 rows/s."""
    found = estimate(replica(), PeakMinute(0, 60_000), PeakMinute(1, 12_000), slo_ms=100)
    assert found.largest_batch_rows == 36
    assert found.rows_per_s == pytest.approx(439.02, abs=0.01)
    assert (found.without, found.with_precomputing, found.saved) == (3, 1, 2)
    assert (found.load_without, found.load_with) == (
        pytest.approx(1000 / 439.02, rel=1e-4),
        pytest.approx(0.4556, rel=1e-3),
    )


def test_no_tail_needs_no_replica() -> None:
    assert estimate(replica(), PeakMinute(0, 60), PeakMinute(0, 0), 100).with_precomputing == 0


def test_cap_of_the_batch_and_a_row_over_the_target() -> None:
    assert estimate(replica(rows=8), PeakMinute(0, 60), PeakMinute(0, 0), 1000).largest_batch_rows == 8
    slow = estimate(replica(tau0_ms=80), PeakMinute(0, 60), PeakMinute(0, 0), 100)
    assert (slow.largest_batch_rows, slow.is_row_over_slo) == (1, True)
    assert estimate(replica(alpha_ms=0), PeakMinute(0, 60), PeakMinute(0, 0), 100).largest_batch_rows == 64


def test_the_slowest_replica_sizes_the_fleet() -> None:
    assert slowest([], 100) is None
    found = slowest([replica("a"), replica("slow", alpha_ms=2.4), replica("c")], 100)
    assert found is not None
    assert found.node == "slow"

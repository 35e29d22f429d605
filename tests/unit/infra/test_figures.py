"""The demo's figures from made-up answers."""

import numpy as np
import pytest

from infra.demo.figures import PLANNED_LOOKUPS_PER_DAY, quantile_ms, replicas, share_by_source, traffic_of
from infra.demo.replay import Answered, ReplayResult
from schemas.capacity import BatchTime


def answered(index: int, source: str, latency_ms: float, attempts: int = 1) -> Answered:
    return Answered(index, 200, latency_ms, attempts, {"source": source})


RESULT = ReplayResult(
    [
        answered(0, "precomputed", 1.0),
        answered(1, "precomputed", 3.0),
        answered(2, "precomputed", 900.0, attempts=2),
        answered(3, "live", 9.0),
        Answered(4, 503, 60_000.0, 9, {"code": "overloaded"}),
    ]
)


def test_shares_add_up_and_what_has_no_source_is_an_error() -> None:
    shares = share_by_source(RESULT)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["precomputed"] == pytest.approx(0.6)
    assert shares["error"] == pytest.approx(0.2)
    assert RESULT.errors == 1


def test_latency_is_of_first_attempts_and_nothing_measured_is_no_number() -> None:
    assert quantile_ms(RESULT, "precomputed", 0.5) == pytest.approx(2.0)
    assert np.isnan(quantile_ms(RESULT, "cached", 0.5))


def test_replicas_follow_the_peak_minute_of_each_kind_of_traffic() -> None:
    # Hot look-ups peak in minute 10, the others in minute 20: the two peaks do not belong together.
    minutes = [10] * 90 + [20] * 60
    entities = ["hot"] * 80 + ["cold"] * 10 + ["cold"] * 50 + ["hot"] * 10
    traffic = traffic_of(minutes, entities, {"hot"})
    assert traffic.hot_share == pytest.approx(90 / 150)
    device = BatchTime(tau0_ms=1.0, alpha_ms=0.1)
    one = 0.6 * device.rows_per_s(100)
    scale = PLANNED_LOOKUPS_PER_DAY / 150 / 60
    assert replicas(traffic, device, max_batch_rows=100) == (
        int(np.ceil(90 * scale / one)),
        int(np.ceil(50 * scale / one)),
    )

"""What `make bench-planning` counts as an error, and the line it ends with."""

import orjson
import pytest

from online.planning.simulation import BatchingRule
from schemas.capacity import BatchTime
from tests.bench.planning.bound import Triple, compare
from tests.bench.planning.measure import Known
from tests.bench.planning.plan import FULL, JUDGED_BELOW
from tests.bench.planning.results import Loaded, Results


def loaded(utilisation: float, predicted: tuple[float, float], measured: tuple[float, float]) -> Loaded:
    return Loaded("emulated:6,1.2", utilisation, 100, 1, *predicted, *measured, 2, 2, 0, 0, 0, 0.1)


def test_errors_are_relative_to_what_was_measured_and_judged_below_85_per_cent() -> None:
    results = Results([
        loaded(0.2, (11, 20), (10, 20)),
        loaded(0.75, (19, 34), (20, 40)),
        loaded(0.9, (50, 100), (100, 300)),
    ])  # fmt: skip
    document = orjson.loads(results.to_json())
    assert document["mean_error_max_below_85pct"] == pytest.approx(0.1)
    assert document["p99_error_max"] == pytest.approx(0.15)
    assert document["mean_error_max_all"] == pytest.approx(0.5)
    assert document["bound_violations"] == 0
    assert document["cpu_mean_error_max"] is None


def test_three_devices_at_five_loads_are_judged_within_ten_minutes() -> None:
    assert len({device for device, _ in FULL.devices}) == 3
    for _, points in FULL.devices:
        assert len({point.utilisation for point in points if point.utilisation < JUDGED_BELOW}) == 5
    loads = [*(point for _, points in FULL.devices for point in points), *FULL.cpu]
    # What is not load, of four stacks: profiles, starts, single requests, clients.
    assert sum(FULL.runs * (FULL.warm_s + point.measured_s) for point in loads) < 400


def test_the_prediction_has_the_products_cap_delay_and_deadline() -> None:
    known = Known(lambda rows: 6.0 + 1.2 * rows, outside_ms=2.5)
    assert known.rule == BatchingRule(64, max_delay_ms=0.0, deadline_ms=1997.5)
    assert known.capacity_per_s == pytest.approx(772.9, abs=0.1)


def test_a_mean_above_its_bound_by_more_than_its_interval_is_a_violation() -> None:
    time = BatchTime(6, 1.2)
    results = Results(triples=[Triple(time, 600, 36, 35.4, 35.5), Triple(time, 600, 36, 35.6, 35.5)])
    assert results.violations == 1


def test_random_devices_stay_under_the_bound() -> None:
    triples = compare(12, 6_400, seed=3)
    assert len({triple.time for triple in triples}) == 12
    assert not any(triple.is_violation for triple in triples)
    assert all(0.8 < triple.mean_over_bound < 1.2 for triple in triples)

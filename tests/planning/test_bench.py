"""What `make bench-planning` counts as an error, and the line it ends with."""

import orjson
import pytest

from schemas.capacity import BatchTime
from tests.bench.planning.bound import Triple, compare
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


def test_a_mean_above_its_bound_by_more_than_its_interval_is_a_violation() -> None:
    time = BatchTime(6, 1.2)
    results = Results(triples=[Triple(time, 600, 36, 35.4, 35.5), Triple(time, 600, 36, 35.6, 35.5)])
    assert results.violations == 1


def test_random_devices_stay_under_the_bound() -> None:
    triples = compare(12, 6_400, seed=3)
    assert len({triple.time for triple in triples}) == 12
    assert not any(triple.is_violation for triple in triples)
    assert all(0.8 < triple.mean_over_bound < 1.2 for triple in triples)

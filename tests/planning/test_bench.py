"""What `make bench-planning` counts as an error, what it is calibrated on, and the line it ends with."""

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest

from online.planning.device_queue import BatchingRule, Milliseconds, run
from online.planning.outside import Outside
from online.planning.simulation import poisson_ms
from schemas.capacity import BatchTime
from tests.bench.known import MAX_BATCH_ROWS
from tests.bench.planning.bound import Triple, compare
from tests.bench.planning.calibration import HEAVY, LIGHT, Calibrated, Timed, calibrated
from tests.bench.planning.measure import Known, Spare
from tests.bench.planning.plan import FULL, JUDGED_BELOW, QUICK
from tests.bench.planning.results import Loaded, Results
from tests.bench.planning.table import show


def loaded(
    utilisation: float, predicted: tuple[float, float], measured: tuple[float, float], **more: Any
) -> Loaded:
    fields: dict[str, Any] = {
        "device": "emulated:6,1.2",
        "utilisation": utilisation,
        "rate_per_s": 100,
        "outside_ms": 1,
        "outside_row_ms": 0.1,
        "device_ms": 0.2,
        "predicted_mean_ms": predicted[0],
        "predicted_p99_ms": predicted[1],
        "predicted_batch_rows": 2,
        "arrivals_mean_ms": measured[0],
        "arrivals_p99_ms": measured[1],
        "measured_mean_ms": measured[0],
        "measured_p99_ms": measured[1],
        "measured_batch_rows": 2,
        "errors": 0,
        "wrong": 0,
        "overruns": 0,
        "late_p99_ms": 0.1,
    }
    return Loaded(**(fields | more))


def test_errors_are_relative_to_what_was_measured_and_judged_below_85_per_cent() -> None:
    stalled = loaded(0.75, (19, 34), (38, 68), overruns=3)
    results = Results([
        loaded(0.2, (10.9, 20), (10, 20)),
        loaded(0.75, (17, 34), (20, 40), first=stalled),
        loaded(0.9, (50, 100), (100, 300)),
    ])  # fmt: skip
    document = orjson.loads(results.to_json())
    assert document["mean_error_max_below_85pct"] == pytest.approx(0.15)
    assert document["p99_error_max"] == pytest.approx(0.15)
    assert document["mean_error_max_all"] == pytest.approx(0.5)
    assert (document["points_judged"], document["mean_error_within_10pct"]) == (2, 1)
    assert document["p99_error_within_20pct"] == 2
    # What was measured again is judged by its second attempt, and the first is shown.
    assert document["points_measured_again"] == 1
    assert document["points"][1]["first"]["mean_error"] == pytest.approx(-0.5)
    assert document["points"][1]["first"]["overruns"] == 3
    assert document["bound_violations"] == 0
    assert document["cpu_mean_error_max"] is None


def test_the_table_shows_stalls_and_how_many_points_are_within(capsys: pytest.CaptureFixture[str]) -> None:
    stalled = loaded(0.75, (19, 34), (38, 68), overruns=3)
    show(Results([loaded(0.2, (10.9, 20), (10, 20)), loaded(0.75, (17, 34), (20, 40), first=stalled)]))
    told = " ".join(capsys.readouterr().out.split())
    assert "3 → 0" in told
    assert "Mean within 10% at 1 of 2 points, p99 within 20% at 2." in told
    assert "loads at 10% and 65% and a burst, not judged" in told


def test_three_devices_at_five_loads_are_judged_within_ten_minutes() -> None:
    assert len({device for device, _ in FULL.devices}) == 3
    for _, points in FULL.devices:
        assert len({point.utilisation for point in points if point.utilisation < JUDGED_BELOW}) == 5
    loads = [*(point for _, points in FULL.devices for point in points), *FULL.cpu]
    # What is not load, of four stacks: profiles, starts, bursts, clients.
    calibrated_s = 2 * FULL.calibrated_s * (len(FULL.devices) + 1)
    loaded_s = sum(FULL.runs * (FULL.warm_s + point.measured_s) for point in loads)
    assert calibrated_s + loaded_s + FULL.again_s < 420


def test_stalled_points_are_measured_again_while_there_is_time_to_spare() -> None:
    spare = Spare(60.0)
    assert [spare.take(27.0) for _ in range(3)] == [True, True, False]
    assert spare.take(6.0)
    assert not Spare(0.0).take(1.0)


def test_no_judged_point_is_one_that_was_calibrated_on() -> None:
    for plan in (FULL, QUICK):
        judged = {point.utilisation for _, points in plan.devices for point in points}
        assert not judged & {LIGHT, HEAVY}


def test_the_prediction_has_the_products_cap_delay_and_deadline() -> None:
    known = Known(lambda rows: 6.0 + 1.2 * rows, Calibrated(Outside(2.4, 0.1), device_ms=0.3))
    assert known.rule == BatchingRule(64, max_delay_ms=0.0, deadline_ms=1997.5)
    assert known.capacity_per_s == pytest.approx(772.9, abs=0.1)
    assert known.batch_ms(10) == pytest.approx(18.3)


def timed(arrivals_ms: Milliseconds) -> Timed:
    """As a tier of 2 ms and 0.1 ms a row answers, with a device of 6 + 1.2 b with 0.25 ms between batches."""
    found = run(arrivals_ms, lambda rows: 6.25 + 1.2 * rows, BatchingRule(MAX_BATCH_ROWS))
    _, batch = np.unique((arrivals_ms + found.latency_ms).round(6), return_inverse=True)
    execute_ms = 6.0 + 1.2 * found.rows + 0.001 * (batch % 7)
    queue_ms = found.latency_ms - 6.25 - 1.2 * found.rows
    done_ms = arrivals_ms + found.latency_ms + 2 + 0.1 * found.rows
    heads = [
        b"server-timing: route;dur=0.1, queue;dur=%.3f, batch;dur=0.0, execute;dur=%.3f" % (abs(queue), execute)
        for queue, execute in zip(queue_ms, execute_ms, strict=True)
    ]
    return Timed.of(arrivals_ms / 1e3, done_ms / 1e3, heads)


def test_what_the_tier_adds_is_found_and_a_stall_does_not_bend_it() -> None:
    burst = timed(np.zeros(10 * MAX_BATCH_ROWS))
    light, heavy = (timed(poisson_ms(rate, count, 1)) for rate, count in ((77, 300), (500, 2_000)))
    stalled = replace(heavy, latency_ms=heavy.latency_ms + 200 * (np.arange(2_000) % 100 < 4))
    found = calibrated(burst, [light, stalled], lambda rows: 6.0 + 1.2 * rows)
    assert found.device_ms == pytest.approx(0.25, abs=0.01)
    assert found.outside.row_ms == pytest.approx(0.1, abs=0.005)
    assert found.outside.fixed_ms == pytest.approx(2.0, abs=0.05)


def test_a_device_that_no_burst_fills_is_taken_by_its_own_time() -> None:
    # One every 5 ms: never 64 at once.
    trickle = timed(np.arange(600) * 5.0)
    assert trickle.rows.max() < MAX_BATCH_ROWS
    found = calibrated(trickle, [trickle], lambda rows: 5.5 + 1.2 * rows)
    assert found.device_ms == pytest.approx(0.5, abs=0.01)


def test_batches_whose_answers_pile_up_behind_the_device_are_taken_by_their_own_time() -> None:
    burst = timed(np.zeros(10 * MAX_BATCH_ROWS))
    piled = replace(burst, done_ms=burst.done_ms.max() + burst.done_ms / 50)
    found = calibrated(piled, [burst], lambda rows: 5.5 + 1.2 * rows)
    assert found.device_ms == pytest.approx(0.5, abs=0.01)


def test_answers_without_stages_tell_nothing() -> None:
    with pytest.raises(ValueError, match="no answer says how long"):
        Timed.of(np.zeros(2), np.ones(2), [b"HTTP/1.1 200 OK", b""])


def test_a_mean_above_its_bound_by_more_than_its_interval_is_a_violation() -> None:
    time = BatchTime(6, 1.2)
    results = Results(triples=[Triple(time, 600, 36, 35.4, 35.5), Triple(time, 600, 36, 35.6, 35.5)])
    assert results.violations == 1


def test_random_devices_stay_under_the_bound() -> None:
    triples = compare(12, 6_400, seed=3)
    assert len({triple.time for triple in triples}) == 12
    assert not any(triple.is_violation for triple in triples)
    assert all(0.8 < triple.mean_over_bound < 1.2 for triple in triples)

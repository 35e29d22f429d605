"""The figures of the benchmark from made-up runs, and its line of JSON."""

import numpy as np
import orjson
import pytest

from tests.bench.live.cpu_model import cpu_result
from tests.bench.live.measure import DEVICE, Run
from tests.bench.live.overload import OverloadResult, overload_result
from tests.bench.live.plan import FULL, QUICK
from tests.bench.live.rates import RateResult, median_ratios, medians
from tests.bench.live.results import Results
from tests.bench.load.summary import Latencies

CONTRACT = {
    "mean_over_ideal_100", "mean_over_ideal_300", "mean_over_ideal_600", "p99_over_ideal_600",
    "mean_over_ideal_720", "overload_goodput_share", "overload_refusal_p99_ms", "overload_recovery_s",
    "cpu_throughput_over_bare",
}  # fmt: skip


def rate_result(rate_per_s: int, mean_ms: float, wrong: int = 0) -> RateResult:
    measured, ideal = Latencies(9, mean_ms, mean_ms, 3 * mean_ms), Latencies(9, 10.0, 10.0, 20.0)
    return RateResult("hotset", rate_per_s, measured, ideal, {}, wrong, 0.1, {}, {"batches": 4.0, "rows": 10.0})


def overloaded() -> OverloadResult:
    """Probes from 0 to 2 s and from 6 s on; load between: 800 good a second, 400 refused, 300 in vain."""
    probes_s, after_s = np.arange(0, 2, 0.01), np.arange(6, 8, 0.01)
    load_s = np.arange(2, 6, 1 / 1500)
    kind = np.arange(len(load_s)) % 15
    latency_ms = np.where(kind < 8, 100.0, np.where(kind < 12, 5.0, 260.0))
    due_s = np.concatenate([probes_s, load_s, after_s])
    after_ms = np.where(after_s < 6.5, 80.0, 10.0)
    codes = ["" if k < 8 else "overloaded" if k < 12 else "deadline_exceeded" for k in kind]
    run = Run(
        due_s=due_s,
        latency_ms=np.concatenate([np.full(len(probes_s), 10.0), latency_ms, after_ms]),
        status=np.concatenate([np.full(len(probes_s), 200), np.where(kind < 8, 200, 503), np.full(200, 200)]),
        code=[""] * len(probes_s) + codes + [""] * 200,
        wrong=0,
        late_p99_ms=0.1,
        generator_cpu_share=0.1,
    )
    return overload_result(run, 2.0, 6.0)


def test_overload_counts_what_is_in_time_and_how_refusals_went() -> None:
    found = overloaded()
    assert found.goodput_share == pytest.approx(800 / DEVICE.rows_per_s(64), rel=0.01)
    assert found.offered == pytest.approx(4500, abs=2)
    assert found.by_code["overloaded"].p99_ms == 5.0
    assert found.by_code["deadline_exceeded"].count == pytest.approx(900, abs=2)
    assert found.refusals.p99_ms == 260.0
    assert found.recovery_s == pytest.approx(0.5, abs=0.011)


def test_ideal_is_of_the_same_arrivals_and_counts_after_the_warm_up() -> None:
    due_s = np.array([0.0, 0.001, 1.0])
    run = Run(due_s, np.array([7.2, 14.6, 9.0]), np.array([200, 200, 503]), ["", "", "overloaded"], 0, 0.0, 0.0)
    assert run.ideal().mean_ms == pytest.approx((7.2 + 13.4 + 7.2) / 3)
    assert run.ideal(0.5).mean_ms == pytest.approx(7.2)
    assert run.latencies().count == 2
    assert run.errors() == {"overloaded": 1}


def test_medians_over_repetitions() -> None:
    runs = [rate_result(600, mean_ms) for mean_ms in (12.0, 30.0, 11.0)] + [rate_result(100, 15.0)]
    assert median_ratios(runs, 600) == pytest.approx((1.2, 1.8))
    assert [run.measured.mean_ms for run in medians(runs)] == [12.0, 15.0]
    assert np.isnan(median_ratios(runs, 720)).all()
    assert runs[0].batch_rows == 2.5


def test_cpu_model_compares_within_each_turn_and_checks_rows() -> None:
    expected = np.array([1.0, 2.0, 3.0])

    def turn(bare: float, tier: float, values: list[float]) -> tuple[dict[str, object], dict[str, object]]:
        said = {"rows_per_s": tier, "batch_ms": 2.0, "batch_rows": 64.0, "failures": 0}
        return {"rows_per_s": bare, "batch_ms": 2.0}, {**said, "places": [2, 0], "values": values}

    found = cpu_result(
        [turn(100, 90, [3.0, 1.0]), turn(50, 49, [3.0, 2.0]), turn(100, 95, [3.0, 1.0])], expected, {}
    )
    assert found.tier_over_bare == 0.95
    assert found.wrong == 1


def test_json_is_one_line_with_every_key_and_null_for_what_has_no_number() -> None:
    results = Results(product=[rate_result(600, 11.0)], overload=overloaded())
    line = results.to_json()
    assert b"\n" not in line
    document = orjson.loads(line)
    assert document.keys() >= CONTRACT
    assert document["mean_over_ideal_600"] == 1.1
    assert document["mean_over_ideal_100"] is None
    assert document["overload_refusal_p99_ms"] == 260.0
    assert orjson.loads(Results().to_json()).keys() >= CONTRACT


def test_wrong_answers_of_all_parts_add_up() -> None:
    assert (
        Results(product=[rate_result(100, 9.0, wrong=2)], peers=[rate_result(100, 9.0, wrong=1)]).wrong_answers
        == 3
    )


def test_parts_can_be_left_out() -> None:
    only = FULL.only(["600", "cpu"])
    assert [rate for rate, _ in only.runs] == [600]
    assert (only.peers, only.has_overload, only.cpu_rounds) == ({}, False, FULL.cpu_rounds)
    assert QUICK.only(["overload"]).runs == ()


def test_the_plans_fit_their_time() -> None:
    def load_s(plan) -> float:
        runs = sum(often for _, often in plan.runs) + sum(len(rates) for rates in plan.peers.values())
        overload = plan.normal_s + plan.overload_s + plan.recovery_s
        return runs * (plan.warm_s + plan.measured_s + 1) + overload + 2 * plan.cpu_rounds * plan.cpu_s

    assert load_s(FULL) < 480
    assert load_s(QUICK) < 42

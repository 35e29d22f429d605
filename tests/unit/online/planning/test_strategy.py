"""The ways to more, beside each other: what each does to latency, cost and failures, and which is recommended."""

from dataclasses import replace

import pytest

from online.planning.checks import OutOfRange
from online.planning.replica import Goal, Replica
from online.planning.strategy import Advice, Question, Way, advise
from schemas.capacity import BatchTime

SMALL = Question(Replica(BatchTime(6.0, 1.2), 64, 0.5), 2000, Goal(50), weight_gb=0.44, memory_gb=16)


def way(advice: Advice, name: str) -> Way:
    return next(one for one in advice.ways if one.name == name)


def test_what_fits_on_one_card_is_replicated() -> None:
    found = advise(SMALL)
    assert found.best is way(found, "replicas")
    assert found.best.lost_cards == 1
    assert found.best.lost_share == pytest.approx(1 / found.best.groups)
    # What quantisation would save is said, but its answers are others.
    assert "quantisation costs 50% less at best, if its changed answers are good enough" in found.why


def test_what_does_not_fit_is_split_and_the_failure_domain_grows() -> None:
    found = advise(replace(SMALL, weight_gb=28, quantised_share=0.6, bigger_price_per_hour=9.0))
    assert not way(found, "replicas").fits
    assert not way(found, "quantisation").fits
    assert found.best is not None
    assert found.best.name in ("pipeline parallel", "tensor parallel")
    assert found.best.lost_cards == 2
    assert "replicas does not fit (175% of a card)" in found.why


def test_quantisation_is_recommended_where_nothing_else_does_it() -> None:
    found = advise(replace(SMALL, weight_gb=40, quantised_share=0.25, bigger_memory_gb=32))
    assert found.best is way(found, "quantisation")


def test_tensor_parallel_shortens_a_batch_and_pays_for_the_links() -> None:
    free = advise(replace(SMALL, link_us=0, row_kb=0))
    assert way(free, "tensor parallel").batch_one_ms == pytest.approx(3.6)
    # 24 all-reduces in a ring of two: 48 messages of 20 us, and 24 x 200 kB over 12 GB/s.
    slow = way(advise(SMALL), "tensor parallel")
    assert slow.batch_one_ms == pytest.approx(3.6 + 48 * 0.02 + 24 * 200e3 / 12e9 * 1e3)
    assert slow.cost_per_month > way(free, "tensor parallel").cost_per_month


def test_a_pipeline_gives_throughput_but_no_shorter_answer() -> None:
    found = advise(replace(SMALL, link_us=0, row_kb=0))
    pipeline, tensor = way(found, "pipeline parallel"), way(found, "tensor parallel")
    assert pipeline.groups <= tensor.groups + 1
    assert pipeline.p50_ms > tensor.p50_ms


def test_a_cheap_bigger_card_wins() -> None:
    found = advise(replace(SMALL, bigger_price_per_hour=0.6))
    assert found.best is way(found, "bigger card")
    assert "replicas costs" in found.why


def test_a_budget_comes_before_simplicity_and_what_is_over_it_is_said() -> None:
    # Half the cards of a bigger card 4 % cheaper: simpler wins, but where only the cheaper one is paid for.
    near = replace(SMALL, bigger_price_per_hour=0.96)
    free = advise(near)
    assert free.best is way(free, "replicas")
    replicas, bigger = way(free, "replicas").cost_per_month, way(free, "bigger card").cost_per_month
    assert bigger < replicas <= bigger * 1.05
    tight = advise(replace(near, goal=Goal(50, budget_per_month=(replicas + bigger) / 2)))
    assert tight.best is way(tight, "bigger card")
    assert (tight.best.is_in_budget, way(tight, "replicas").is_in_budget) == (True, False)
    poor = advise(replace(near, goal=Goal(50, budget_per_month=1)))
    assert poor.best is way(poor, "replicas")
    assert poor.why.endswith("Over the budget, as is all else that fits, is in time and keeps the answers.")
    assert free.best.is_in_budget is None


def test_no_way_does_it() -> None:
    found = advise(replace(SMALL, goal=Goal(1.0)))
    assert found.best is None
    assert found.why.startswith("no way does it: replicas is not in time")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cards": 1}, "cards is 1: allowed is 2 or more"),
        ({"weight_gb": 0}, "weight_gb is 0: allowed is a finite number above 0"),
        ({"quantised_share": 1.5}, "quantised_share is 1.5: allowed is above 0, at most 1"),
        ({"rate_per_s": -1}, "rate_per_s is -1: allowed is a finite number above 0"),
        ({"link_us": -1}, "link_us is -1: allowed is a finite number from 0 on"),
    ],
)
def test_nonsense_is_told_by_its_field_and_the_range(change: dict[str, object], says: str) -> None:
    with pytest.raises(OutOfRange, match=says):
        advise(replace(SMALL, **change))  # type: ignore[arg-type]

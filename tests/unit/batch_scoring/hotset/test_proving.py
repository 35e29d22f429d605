"""The choice beside the set in service: which windows count, and by how much it may lose."""

import numpy as np
import pytest

from batch_scoring.hotset.plan import Plan
from batch_scoring.hotset.proving import TOLERATED, Rival, prove, why_too_short
from batch_scoring.hotset.trace import DAY_S, Trace, Windows, cut, windows_until

DAYS = 8
NAMES = [f"e{place:02d}" for place in range(40)]
PLAN = Plan(slots=10, most_fixed=10)
OLD, NEW = np.arange(10), np.arange(10, 20)


def traced(turn_day: int = DAYS, requests: int = 400) -> tuple[Trace, Windows]:
    """Nine in ten requests are for the first ten entities, from `turn_day` on for the next ten."""
    random = np.random.default_rng(5)
    times_s = np.sort(random.random(DAYS * requests)) * DAYS * DAY_S
    favourites = random.integers(0, 10, len(times_s)) + np.where(times_s >= turn_day * DAY_S, 10, 0)
    codes = np.where(random.random(len(times_s)) < 0.9, favourites, random.integers(20, 40, len(times_s)))
    trace = Trace.of(codes, NAMES, times_s)
    return trace, windows_until(trace, DAYS * DAY_S, DAY_S, 28)


def test_a_set_that_knew_no_more_and_does_much_better_wins() -> None:
    trace, windows = traced(turn_day=DAYS - 1)
    duel = prove(trace, windows, PLAN, Rival(NEW, (DAYS - 1) * DAY_S)).duel
    assert duel
    assert duel.is_lost
    assert duel.windows == 1
    assert duel.rival == pytest.approx(0.9, abs=0.05)
    assert duel.choice < 0.5
    assert duel.lead < -0.3


def test_a_set_as_good_and_one_that_is_worse_do_not_win() -> None:
    trace, windows = traced()
    as_good = prove(trace, windows, PLAN, Rival(OLD, (DAYS - 2) * DAY_S)).duel
    assert as_good
    assert (as_good.windows, as_good.lead, as_good.is_lost) == (2, pytest.approx(0.0, abs=0.01), False)
    worse = prove(trace, windows, PLAN, Rival(NEW, (DAYS - 2) * DAY_S)).duel
    assert worse
    assert not worse.is_lost
    assert worse.lead > 0.5


def test_windows_that_the_set_in_service_knew_are_not_compared() -> None:
    trace, windows = traced()
    proof = prove(trace, windows, PLAN, Rival(OLD, DAYS * DAY_S))
    assert proof.duel is None
    half_known = prove(trace, windows, PLAN, Rival(OLD, (DAYS - 1.5) * DAY_S))
    assert half_known.duel
    assert half_known.duel.windows == 1
    assert list(half_known.rival_rates) == [(DAYS - 1) * DAY_S]


def test_a_difference_within_the_noise_is_none() -> None:
    trace, windows = traced()
    nine = prove(trace, windows, PLAN, Rival(np.append(OLD[:9], 25), (DAYS - 1) * DAY_S)).duel
    assert nine
    # One entity's tenth of the requests is won or lost together: that says little.
    assert nine.noise > 0.1
    same = prove(trace, windows, PLAN, Rival(OLD, (DAYS - 1) * DAY_S)).duel
    assert same
    assert same.noise >= TOLERATED


def test_what_is_too_short_to_be_tried_on_is_said() -> None:
    trace, windows = traced()
    assert why_too_short(trace, windows) is None
    few, its = traced(requests=50)
    assert "400 requests: 1,000 are needed" in str(why_too_short(few, its))
    assert why_too_short(few, windows_until(few, DAYS * DAY_S, 3 * DAY_S, 28)) is not None
    burst, its = cut(Trace.of(np.zeros(2000, np.int64), ["a"], np.repeat([0.0, 6.5 * DAY_S], 1000)), DAY_S)
    assert "requests in 2 windows" in str(why_too_short(burst, its))

"""The backtest beside the slow reference, and that nothing of a window is known before it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_scoring.hotset.backtest import Backtest, backtest
from batch_scoring.hotset.baselines import baseline_hits
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.expected import decayed_means
from batch_scoring.hotset.measures import Measures
from batch_scoring.hotset.plan import Plan, outlooks
from batch_scoring.hotset.profiles import Profile
from batch_scoring.hotset.redis_eviction import Eviction
from batch_scoring.hotset.split import Splits, WrittenBack, replay
from batch_scoring.hotset.trace import BadLog, Trace, Windows, cut
from tests.unit.batch_scoring.hotset import reference

NAMES = ["a", "b", "c", "d", "e", "f", "g"]
REQUESTS = st.lists(st.tuples(st.floats(0, 79.9), st.sampled_from(NAMES)), min_size=1, max_size=70)
PLAIN = WrittenBack(evictions=(Eviction(),), admissions=(1,))


def traced(
    requests: list[reference.Request], history: int = 3, scale: float = 1.0
) -> tuple[list[reference.Request], Trace, Windows]:
    """Eight windows of `scale` times ten seconds each, with a request at either end."""
    ordered = sorted([(0.0, "a"), *requests, (79.95 * scale, "b")], key=lambda one: one[0])
    codes = np.array([NAMES.index(name) for _, name in ordered])
    trace, windows = cut(Trace.of(codes, NAMES, np.array([when for when, _ in ordered])), 10.0 * scale, history)
    assert len(windows) == 8
    return ordered, trace, windows


@given(REQUESTS, st.integers(1, 5), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_baselines_are_as_the_reference_has_them(
    requests: list[reference.Request], slots: int, history: int
) -> None:
    ordered, trace, windows = traced(requests, history)
    found = baseline_hits(trace, windows, slots, None, 1, lambda: None)
    edges = windows.edges_s.tolist()
    names = [name for _, name in ordered]
    for kind in ("last_window", "past_top", "static_oracle"):
        assert found[kind].tolist() == reference.set_hits(ordered, edges, history, slots, kind), kind
    assert found["lru"].tolist() == reference.lru_hits(names, slots)
    assert found["lfu"].tolist() == reference.lfu_hits(names, slots)
    assert found["sieve"].tolist() == reference.sieve_hits(names, slots)
    assert found["belady"].sum() >= max(found[name].sum() for name in ("lru", "lfu", "sieve", "wtinylfu"))


@given(REQUESTS, st.sampled_from([0.5, 2.0, 16.0]), st.integers(1, 7))
@settings(max_examples=40, deadline=None)
def test_means_are_the_sums_of_halved_requests(
    requests: list[reference.Request], half_life: float, window: int
) -> None:
    ordered, trace, windows = traced(requests)
    profile = Profile(half_life)
    found = decayed_means(trace, windows, window, profile) * profile.windows(min(window, 3))
    edges = windows.edges_s.tolist()
    slow = reference.decayed(ordered, edges[max(0, window - 3)], edges[window], half_life * 10)
    assert found == pytest.approx(np.array([slow.get(name, 0.0) for name in NAMES]), abs=1e-8)


@given(REQUESTS, st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_with_room_for_all_the_hits_are_the_references(requests: list[reference.Request], fixed: int) -> None:
    ordered, trace, windows = traced(requests)
    plan = Plan(slots=20, most_fixed=20, server=PLAIN)
    sets = [view.ranking[:fixed] for view in outlooks(trace, windows, plan, len(windows))]
    found = replay(trace, windows, sets, plan.slots, PLAIN, [Eviction()] * len(windows))
    named = [[NAMES[code] for code in chosen] for chosen in sets]
    assert found.hits.tolist() == reference.choice_hits(ordered, windows.edges_s.tolist(), named)


@given(REQUESTS, st.integers(0, 3), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_what_is_said_of_a_window_is_the_references(
    requests: list[reference.Request], fixed: int, history: int
) -> None:
    # A second of the trace is half a minute: windows of five minutes.
    ordered, trace, windows = traced([(30 * when, name) for when, name in requests], history, scale=30.0)
    plan = Plan(slots=20, most_fixed=20, server=PLAIN)
    views = outlooks(trace, windows, plan, len(windows))
    sets = [view.ranking[: (fixed + place) % 4] for place, view in enumerate(views)]
    replayed = replay(trace, windows, sets, plan.slots, PLAIN, [Eviction()] * len(windows))
    hits = {"choice": replayed.hits}
    measures = Measures(trace, windows, views, [0.5] * len(windows), sets, [replayed], replayed, hits)
    named = [[NAMES[code] for code in chosen] for chosen in sets]
    edges = windows.edges_s.tolist()
    slow_hits = reference.choice_hits(ordered, edges, named)
    for window in range(1, len(windows)):
        if windows.first[window] < windows.first[window + 1]:
            slow = reference.window_facts(ordered, edges, history, named, slow_hits, window)
            found = measures.window(window)
            assert found.hit_rates["choice"] == pytest.approx(slow.pop("hit_rate"))
            for name, value in slow.items():
                assert getattr(found, name) == pytest.approx(value), name


@given(REQUESTS, REQUESTS, st.integers(2, 6))
@settings(max_examples=20, deadline=None)
def test_nothing_of_a_window_or_after_is_known_before_it(
    past: list[reference.Request], other: list[reference.Request], window: int
) -> None:
    kept = [one for one in past if one[0] < window * 10]
    _, first, windows = traced(past)
    _, second, others = traced([*kept, *(one for one in other if one[0] >= window * 10)])
    plan = Plan(slots=3, most_fixed=3)
    views = [outlooks(trace, its, plan, 8) for trace, its in ((first, windows), (second, others))]
    assert views[0][window].profile == views[1][window].profile
    assert views[0][window].calibration == views[1][window].calibration
    assert views[0][window].ranking.tolist() == views[1][window].ranking.tolist()
    splits = [
        Splits(trace, its, [view.ranking for view in seen], 3, 3, plan.model, plan.server)
        for trace, its, seen in ((first, windows, views[0]), (second, others, views[1]))
    ]
    assert splits[0].fitted(window) == splits[1].fitted(window)
    assert splits[0].evictions[window] == splits[1].evictions[window]


@given(REQUESTS, st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_what_is_reported_adds_up(requests: list[reference.Request], slots: int) -> None:
    ordered, trace, windows = traced(requests)
    found = backtest(trace, windows, Plan(slots, slots), first_test=2)
    weights = [window.requests for window in found.windows]
    assert sum(weights) == sum(when >= 20 for when, _ in ordered)
    curve = dict(found.coverage)
    assert curve[slots / len(NAMES)] == pytest.approx(found.hit_rates["static_oracle"])
    for name in ("choice", "lru", "belady"):
        mean = np.average([window.hit_rates[name] for window in found.windows], weights=weights)
        assert found.hit_rates[name] == pytest.approx(mean)
    for window in found.windows:
        asked = reference.window_of(ordered, window.begin_s, window.begin_s + 10)
        seen = reference.window_of(ordered, window.begin_s - 30, window.begin_s)
        assert window.unseen_share == pytest.approx(np.mean([name not in seen for name in asked]))
        assert window.fixed <= slots
        assert window.hit_rate_by_cost == pytest.approx(window.hit_rates["choice"])
        assert window.precomputed_hit_rate == pytest.approx(window.realised_requests / window.requests)
        assert window.peak_minute_misses is not None
        assert window.peak_minute_misses <= round(window.requests * (1 - window.hit_rates["choice"]))


def drawn(exponent: float, requests: int = 8000, entities: int = 400, days: int = 10) -> Trace:
    random = np.random.default_rng(11)
    weights = np.arange(1, entities + 1) ** -exponent
    codes = random.choice(entities, requests, p=weights / weights.sum())
    times_s = np.sort(random.random(requests)) * days * 86400
    return Trace.of(codes, [f"e{place:04d}" for place in range(entities)], times_s)


def tried(trace: Trace, slots: int, **more: object) -> Backtest:
    trace, windows = cut(trace)
    return backtest(trace, windows, replace(Plan(slots, slots), **more))


def test_a_steady_log_is_worth_precomputing_and_expected_as_it_comes() -> None:
    found = tried(drawn(1.0), 20)
    assert found.reason_declined is None
    assert all(found.hit_rates["choice"] >= found.hit_rates[rival] - 0.005 for rival in ("lru", "lfu", "wtinylfu"))
    assert found.hit_rates["choice"] >= 0.97 * found.hit_rates["best_split_hindsight"]
    expected = sum(window.expected_requests for window in found.windows)
    assert expected == pytest.approx(sum(window.realised_requests for window in found.windows), rel=0.1)


def test_who_is_written_back_is_fitted() -> None:
    """Half of the requests are for what is asked for once; the rest change their favourites with each window."""
    draw, count = np.random.default_rng(5), 8_000
    day = np.arange(count) * 10 // count
    codes = np.where(draw.random(count) < 0.5, 30 * day + draw.integers(0, 30, count), 300 + np.arange(count))
    trace = Trace.of(codes, [str(code) for code in range(300 + count)], np.arange(count) * (10 * 86400 / count))
    found = tried(trace, 20)
    assert found.eviction.written_after > 1
    assert "written back after" in found.eviction.said
    plain = tried(trace, 20, server=WrittenBack(admissions=(1,)))
    assert plain.eviction.written_after == 1
    assert found.hit_rates["choice"] > plain.hit_rates["choice"] + 0.02


@pytest.mark.parametrize("repeats", [1, 3])
def test_keys_that_never_return_are_not_worth_precomputing(repeats: int) -> None:
    codes = np.repeat(np.arange(1500), repeats)
    times_s = np.arange(len(codes)) * (10 * 86400 / len(codes))
    found = tried(Trace.of(codes, [f"once-{place}" for place in range(1500)], times_s), 75)
    assert found.reason_declined is not None
    assert "expected" in found.reason_declined
    assert all(window.fixed == 0 for window in found.windows)


def test_scoring_that_costs_more_than_its_hits_is_declined() -> None:
    found = tried(drawn(0.2), 20, model=CostModel(live_ms=1, batch_ms=1000))
    assert found.reason_declined is not None
    assert "asked for often enough" in found.reason_declined


def test_a_sample_keeps_its_error() -> None:
    found = tried(drawn(0.8), 20, sample_share=0.25)
    assert 0.001 < found.standard_error < 0.2


def test_a_log_that_is_too_short_is_refused_in_words() -> None:
    with pytest.raises(BadLog, match="needs 4"):
        cut(Trace.of(np.array([0, 0]), ["a"], np.array([0.0, 100.0])), 86400.0)
    with pytest.raises(BadLog, match="no request"):
        cut(Trace.of(np.empty(0, np.int64), [], np.empty(0)))

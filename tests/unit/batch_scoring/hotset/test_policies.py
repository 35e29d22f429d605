"""Every policy beside an obvious one, on small logs of any shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_scoring.hotset.policies import Lfu, Lru, Policy, Sieve, WTinyLfu, belady_hits
from tests.unit.batch_scoring.hotset import reference

NAMES = "abcdefgh"
LOGS = st.text(NAMES, max_size=60)
SLOTS = st.integers(0, 6)


def hits_of(policy: Policy, log: str) -> list[bool]:
    return [policy.ask(NAMES.index(name)) for name in log]


@given(LOGS, SLOTS)
def test_lru_holds_the_last_different_names(log: str, slots: int) -> None:
    assert hits_of(Lru(slots), log) == reference.lru_hits(log, slots)


@given(LOGS, SLOTS)
def test_lfu_lets_the_least_counted_go(log: str, slots: int) -> None:
    assert hits_of(Lfu(slots), log) == reference.lfu_hits(log, slots)


@given(LOGS, SLOTS)
def test_sieve_walks_its_hand(log: str, slots: int) -> None:
    assert hits_of(Sieve(slots), log) == reference.sieve_hits(log, slots)


@given(st.text("abcde", max_size=14), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_belady_has_the_most_hits_there_can_be(log: str, slots: int) -> None:
    codes = np.array([NAMES.index(name) for name in log], dtype=np.int64)
    assert belady_hits(codes, slots).sum() == reference.belady_best(log, slots)


@pytest.mark.parametrize("policy", [Lru, Lfu, Sieve, WTinyLfu])
@given(log=LOGS, slots=SLOTS, dropped=st.text(NAMES, max_size=5))
@settings(max_examples=40)
def test_none_holds_more_than_its_slots_or_what_was_dropped(
    policy: type[Lru], log: str, slots: int, dropped: str
) -> None:
    asked = {NAMES.index(name) for name in log}
    # To ask changes what is held, so each is asked of a cache of its own.
    found = []
    for key in range(len(NAMES)):
        copy = policy(slots)
        hits_of(copy, log)
        for name in dropped:
            copy.drop(NAMES.index(name))
        if copy.ask(key):
            found.append(key)
    assert len(found) <= slots
    assert set(found) <= asked - {NAMES.index(name) for name in dropped}


def test_wtinylfu_keeps_what_is_asked_for_often_through_a_scan() -> None:
    often, scan = list(range(50)) * 6, list(range(1000, 3000))
    kept = {}
    for policy in (Lru, WTinyLfu):
        held = policy(100)
        for key in [*often, *scan]:
            held.ask(key)
        kept[policy] = sum(held.ask(key) for key in range(50))
    assert kept[Lru] == 0
    assert kept[WTinyLfu] >= 45


def test_wtinylfu_forgets_counts_that_are_old() -> None:
    held = WTinyLfu(20)
    for key in list(range(20)) * 15:
        held.ask(key)
    for key in list(range(100, 120)) * 30:
        held.ask(key)
    assert sum(held.ask(key) for key in range(100, 120)) >= 18

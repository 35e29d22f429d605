from collections.abc import Hashable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.inference.worker.batch_policy import BatchPolicy
from schemas.capacity import BatchTime


@dataclass(frozen=True)
class Item:
    rows: int
    shape: Hashable = "a"


def test_a_device_that_was_busy_takes_at_once_what_has_waited() -> None:
    policy = BatchPolicy(max_rows=8, max_delay_ns=100)
    assert policy.wait_ns(now_ns=50, waiting_rows=1, first_arrived_ns=40, free_since_ns=50) == 0


def test_an_idle_device_waits_from_the_first_arrival_on() -> None:
    policy = BatchPolicy(max_rows=8, max_delay_ns=100)
    assert policy.wait_ns(now_ns=60, waiting_rows=1, first_arrived_ns=50, free_since_ns=10) == 90
    assert policy.wait_ns(now_ns=150, waiting_rows=1, first_arrived_ns=50, free_since_ns=10) == 0
    assert policy.wait_ns(now_ns=60, waiting_rows=8, first_arrived_ns=50, free_since_ns=10) == 0  # full


def test_no_delay_means_none() -> None:
    assert BatchPolicy(8).wait_ns(now_ns=60, waiting_rows=1, first_arrived_ns=60, free_since_ns=10) == 0


def test_only_one_shape_shares_a_batch() -> None:
    items = [Item(1, "a"), Item(1, "b"), Item(1, "a")]
    assert BatchPolicy(8).choose(items) == [items[0], items[2]]


def test_what_does_not_fit_is_not_overtaken() -> None:
    items = [Item(3), Item(2), Item(1)]
    assert BatchPolicy(4).choose(items) == [items[0]]


@given(st.lists(st.tuples(st.integers(1, 8), st.sampled_from("ab")), min_size=1), st.integers(8, 20))
def test_a_batch_is_never_empty_nor_too_large_and_in_order(given_items: list[tuple[int, str]], room: int) -> None:
    items = [Item(*item) for item in given_items]
    chosen = BatchPolicy(room).choose(items)
    assert chosen[0] is items[0]
    assert sum(item.rows for item in chosen) <= room
    places = [next(n for n, item in enumerate(items) if item is one) for one in chosen]
    assert places == sorted(places)
    assert {item.shape for item in chosen} == {items[0].shape}


@pytest.mark.parametrize(
    ("time", "waiting", "taken"),
    [
        # 8 padded to 16 would take 22 ms for 9 rows (0.41 a ms), 8 take 14 (0.57).
        (BatchTime(6.0, 1.0), 9, 8),
        # With a large fixed part padding is cheaper than a second launch: 9 in 116 ms (0.078), 8 in 108 (0.074).
        (BatchTime(100.0, 1.0), 9, 9),
        (BatchTime(6.0, 1.0), 3, 3),  # fewer than two of any size: 4, padded
        (BatchTime(6.0, 1.0), 40, 16),
    ],
)
def test_preferred_sizes_are_cut_to_or_padded_by_what_does_most_rows(
    time: BatchTime, waiting: int, taken: int
) -> None:
    policy = BatchPolicy(16, preferred_rows=(1, 4, 8, 16))
    assert len(policy.choose([Item(1)] * waiting, time)) == taken


def test_a_request_is_not_torn_apart_for_a_preferred_size() -> None:
    policy = BatchPolicy(16, preferred_rows=(1, 4, 8, 16))
    assert policy.choose([Item(9), Item(1)], BatchTime(6.0, 1.0)) == [Item(9)]

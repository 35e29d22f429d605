"""By what samples are taken: the same for one answer and for many, and evenly over all."""

from itertools import pairwise
from zlib import crc32

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from online.api.requestlog.places import place_of, places_of

ENTITIES = st.binary(max_size=20)


@given(
    st.integers(0, 40).flatmap(
        lambda length: st.lists(
            st.tuples(st.binary(min_size=length, max_size=length), ENTITIES), min_size=1, max_size=9
        )
    )
)
def test_many_at_once_are_those_one_by_one(pairs: list[tuple[bytes, bytes]]) -> None:
    ids = np.frombuffer(b"".join(one for one, _ in pairs), np.uint8).reshape(len(pairs), -1)
    entities = np.array([crc32(entity) for _, entity in pairs], np.int64)
    assert places_of(ids, entities).tolist() == [place_of(*pair) for pair in pairs]


def test_they_do_not_change() -> None:
    """Another tier, and the next version of this one, take the same sample."""
    assert place_of(b"4bf92f3577b34da6a3ce929d0e0e4736", b"UA1-EWR") == 2332796279


def test_ids_that_are_almost_alike_are_spread_over_all() -> None:
    for name in (b"request-%d", b"%032x", b"%d"):
        places = np.sort([place_of(name % number, b"a") for number in range(20_000)]) / 2**32
        shares = [
            np.count_nonzero((a <= places) & (places < b)) / 2_000 for a, b in pairwise(np.arange(0, 1.01, 0.1))
        ]
        assert 0.9 < min(shares) <= max(shares) < 1.1, name
        assert abs(np.count_nonzero(places < 0.01) / 200 - 1) < 0.35, name


def test_entities_of_one_request_are_spread_too() -> None:
    places = np.array([place_of(b"batch", b"e%d" % number) for number in range(20_000)]) / 2**32
    assert abs(np.count_nonzero(places < 0.01) / 200 - 1) < 0.35

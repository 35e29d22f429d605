"""Effective latency and cost where not every request takes the same way: hot set, cache, cascade. Pure.

Each comes in two forms. The whole one counts what a request pays on both ways: a miss has looked up first, and
what a small model passes on has been through it. The simpler form, which most texts print, leaves that out.
"""

from dataclasses import dataclass
from math import ceil

from online.planning.checks import counts, not_negative, shares


@dataclass(frozen=True, slots=True)
class Blend:
    """`whole` with the first step paid by everybody, `simple` as a weighted mean without it; in the unit given."""

    whole: float
    simple: float


def lookup_blend(hit_share: float, hit: float, miss: float) -> Blend:
    """Mean of hits and misses, for a hot set, a cache, or any store that is asked first.

    whole = hit + (1 - share) miss; simple = share hit + (1 - share) miss. Weighted means, by the law of total
    expectation.

    Args:
        hit: latency or cost of a look-up.
        miss: of what follows a look-up in vain, without the look-up.

    Raises:
        OutOfRange: names the field.
    """
    shares(hit_share=hit_share)
    not_negative(hit=hit, miss=miss)
    return Blend(hit + (1 - hit_share) * miss, hit_share * hit + (1 - hit_share) * miss)


def cascade_blend(answered_share: float, first: float, second: float) -> Blend:
    """Mean where a small model answers a share by itself and passes the rest on to a large one.

    whole = first + (1 - share) second, since what is passed on has paid for both; simple leaves `first` out there.

    Args:
        first, second: latency or cost of each model by itself.
    """
    shares(answered_share=answered_share)
    not_negative(first=first, second=second)
    return Blend(
        answered_share * first + (1 - answered_share) * (first + second),
        answered_share * first + (1 - answered_share) * second,
    )


def replicas_behind(replicas: int, hit_share: float) -> int:
    """Replicas left to do the misses, in proportion to the traffic; none where everything hits.

    The simple count: it leaves out that thinner traffic makes smaller, less efficient batches (see `sizing.py`).
    """
    counts(replicas=replicas)
    shares(hit_share=hit_share)
    return ceil(round(replicas * (1 - hit_share), 9))

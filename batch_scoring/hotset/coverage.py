"""The curve by which a hot set is judged: what share of the traffic the most asked for entities hold."""

import numpy as np

from batch_scoring.hotset.trace import Floats

_CURVE_POINTS = 64


def coverage(requests: Floats, total: float, entities: int) -> list[tuple[float, float]]:
    """Points of (share of entities, share of traffic), the most asked for first; closest where it is steep."""
    return coverage_of_counts(requests, np.ones(len(requests)), total, entities)


def coverage_of_counts(requests: Floats, alike: Floats, total: float, entities: int) -> list[tuple[float, float]]:
    """As `coverage`, where each number of `requests` is that of so many entities `alike`."""
    if not len(requests) or not total:
        return [(0.0, 0.0)]
    order = np.argsort(requests)[::-1]
    held = np.concatenate([[0.0], np.cumsum(alike[order])])
    upto = np.concatenate([[0.0], np.cumsum((requests * alike)[order])])
    places = np.unique(np.geomspace(1, held[-1], _CURVE_POINTS).astype(np.int64))
    traffic = np.interp(places, held, upto) / total
    shares = np.minimum(places / entities, 1.0)
    return [(0.0, 0.0), *zip(shares.tolist(), np.minimum(traffic, 1.0).tolist(), strict=True)]

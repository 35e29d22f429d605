"""The curve by which a hot set is judged: what share of the traffic the most asked for entities hold."""

import numpy as np

from batch_scoring.hotset.trace import Floats

_CURVE_POINTS = 64


def coverage(requests: Floats, total: float, entities: int) -> list[tuple[float, float]]:
    """Points of (share of entities, share of traffic), the most asked for first; closest where it is steep."""
    if not len(requests) or not total:
        return [(0.0, 0.0)]
    upto = np.cumsum(np.sort(requests)[::-1])
    places = np.unique(np.geomspace(1, len(upto), _CURVE_POINTS).astype(np.int64))
    points = [(float(place) / entities, float(upto[place - 1]) / total) for place in places.tolist()]
    return [(0.0, 0.0), *points]

"""A batching device without any overhead: what the scheduling itself costs, and nothing else.

One device takes T(b) for a batch of b rows. The moment it is free it takes all that waits, at most a cap, in order
of arrival; when nothing waits it takes the next arrival at once.
"""

from math import inf

import numpy as np

from schemas.capacity import BatchTime
from tests.bench.load.arrivals import Seconds
from tests.bench.load.summary import Milliseconds


def ideal_latencies_ms(arrivals_s: Seconds, device: BatchTime, max_batch_rows: int) -> Milliseconds:
    """(n,) latency of each arrival, from its arrival to the end of its batch.

    Args:
        arrivals_s: (n,) ascending.
    """
    arrivals_ms = (1e3 * arrivals_s).tolist()
    latencies = np.empty(len(arrivals_ms))
    first, free_ms = 0, -inf
    while first < len(arrivals_ms):
        begins_ms = max(free_ms, arrivals_ms[first])
        end = first
        while end < len(arrivals_ms) and end - first < max_batch_rows and arrivals_ms[end] <= begins_ms:
            end += 1
        free_ms = begins_ms + device.batch_ms(end - first)
        latencies[first:end] = free_ms - np.array(arrivals_ms[first:end])
        first = end
    return latencies

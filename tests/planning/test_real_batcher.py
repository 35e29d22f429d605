"""The planner's queue beside the product's own batcher on a virtual clock: the same, to the request."""

import numpy as np
import pytest

from online.planning.device_queue import BatchingRule, Milliseconds, run
from online.planning.simulation import poisson_ms
from schemas import wire
from schemas.capacity import BatchTime
from tests.support.virtual_time import VirtualWorker

T4 = BatchTime(6.0, 1.2)
REQUESTS = 1_500


def answered_by_the_batcher(arrivals_ms: Milliseconds, rule: BatchingRule, deadline_ms: int = 0) -> Milliseconds:
    """(n,) latency; NaN where it was refused."""
    worker = VirtualWorker(lambda tensors: tensors[0], rule.max_batch_rows or 10**6, 10**6, T4, rule.max_delay_ms)
    began_ns = worker.clock.now
    at_ns = [began_ns + round(at * 1e6) for at in arrivals_ms.tolist()]
    for number, at in enumerate(at_ns):
        worker.clock.at(at, worker.send, number, [np.full((1, 1), number, np.float32)], 0, deadline_ms)
    worker.run()
    latency_ms = np.full(len(at_ns), np.nan)
    for number, ((answered_ns, answer),) in worker.client.answers.items():
        if isinstance(answer, wire.Result):
            latency_ms[number] = (answered_ns - at_ns[number]) / 1e6
    return latency_ms


@pytest.mark.parametrize(
    ("rate_per_s", "rule"),
    [
        (100, BatchingRule(64)),
        (600, BatchingRule(64)),
        (700, BatchingRule(8, max_delay_ms=4.0)),
        (150, BatchingRule(4, max_delay_ms=10.0)),
    ],
)
def test_every_latency_is_the_batchers(rate_per_s: float, rule: BatchingRule) -> None:
    arrivals_ms = poisson_ms(rate_per_s, REQUESTS, seed=5)
    expected = run(arrivals_ms, T4.batch_ms, rule).latency_ms
    assert answered_by_the_batcher(arrivals_ms, rule) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("rate_per_s", "deadline_ms"), [(1_200, 150), (900, 100), (700, 100)])
def test_with_a_deadline_the_batcher_answers_at_most_as_much_and_nobody_late(
    rate_per_s: float, deadline_ms: int
) -> None:
    """It refuses at once who would be late, by a prediction with a margin; the planner knows who will be."""
    arrivals_ms, rule = poisson_ms(rate_per_s, REQUESTS, seed=5), BatchingRule(64, deadline_ms=deadline_ms)
    found = answered_by_the_batcher(arrivals_ms, rule, deadline_ms)
    expected = run(arrivals_ms, T4.batch_ms, rule).latency_ms
    for latency_ms in (found, expected):
        assert np.nanmax(latency_ms) <= deadline_ms
    assert 0 <= np.isnan(found).mean() - np.isnan(expected).mean() < 0.15

"""Rolling origin: before each window everything is chosen and fitted on its past, then the window is replayed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from batch_scoring.hotset.baselines import POLICIES, baseline_hits
from batch_scoring.hotset.coverage import coverage
from batch_scoring.hotset.expected import realised
from batch_scoring.hotset.measures import Measures, WindowResult
from batch_scoring.hotset.plan import Plan, outlooks
from batch_scoring.hotset.redis_eviction import Eviction
from batch_scoring.hotset.sampling import hit_rate_error
from batch_scoring.hotset.split import SHARES, Splits, replay, saved_ms
from batch_scoring.hotset.split import STEPS as SPLIT_STEPS
from batch_scoring.hotset.trace import BadLog, Floats, Trace, Windows

# How often `advance` is called.
STEPS = SPLIT_STEPS + len(POLICIES) + 2
# Test windows at the end that say whether anything is worth precomputing now.
_LATEST = 3


@dataclass(frozen=True)
class Backtest:
    """What came out.

    Attributes:
        windows: the test windows that had requests.
        hit_rates: over all test windows, of `choice`, the baselines and `best_split_hindsight`: the one share of
            the grid with the most hits in the test windows, which is `best_split`.
        standard_error: of the choice's hit rate, where entities were sampled; else 0.
        gain_ms: scoring that the choice saved in the test windows beyond what the same slots save with
            written-back results alone, the scoring of its sets taken off.
        net_ms: what its hits saved in all, scoring of its sets and every request's look-up taken off.
        eviction: what was fitted for Redis, for after the last window.
        coverage: (share of entities, share of traffic) of the best set of that size in each test window.
    """

    windows: list[WindowResult]
    hit_rates: dict[str, float]
    best_split: float
    standard_error: float
    gain_ms: float
    net_ms: float
    eviction: Eviction
    coverage: list[tuple[float, float]]

    @property
    def reason_declined(self) -> str | None:
        """Why precomputing does not pay, in words; None where it does."""
        if not any(window.fixed for window in self.windows[-_LATEST:]):
            return (
                "no entity is expected to be asked for often enough before the next refresh to pay for scoring it"
            )
        if self.net_ms <= 0:
            return "look-ups and nightly scoring cost more than the hits save"
        if self.gain_ms <= 0:
            return "written-back results alone save as much with the same memory"
        return None


def backtest(
    trace: Trace,
    windows: Windows,
    plan: Plan,
    first_test: int | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Backtest:
    """Tests the windows from `first_test` on; by default a third of them, or one history if less, come before."""
    begin = first_test or max(2, min(windows.history, len(windows) // 3))
    views = outlooks(trace, windows, plan, len(windows))
    rankings = [view.ranking for view in views]
    splits = Splits(trace, windows, rankings, plan.slots, plan.most_fixed, plan.model, plan.server, advance)
    fitted = [splits.fitted(window) for window in range(len(windows))]
    sets = [view.chosen(splits.fixed_slots(share)) for view, share in zip(views, fitted, strict=True)]
    replayed = replay(trace, windows, sets, plan.slots, plan.server, splits.evictions[:-1])
    advance()
    hits = {"choice": replayed.hits}
    hits |= baseline_hits(trace, windows, plan.slots, plan.server.ttl_s, plan.seed, advance)
    measures = Measures(trace, windows, views, fitted, sets, splits.replays, replayed, hits)
    tested = [w for w in range(begin, len(windows)) if windows.first[w] < windows.first[w + 1]]
    if not tested:
        raise BadLog("no window that could be tested has a request")
    is_tested = np.zeros(len(trace.codes), np.bool_)
    for window in tested:
        is_tested[windows.span(window)] = True
    constant = [float(one.hits[is_tested].mean()) for one in splits.replays]
    rates = {name: float(found[is_tested].mean()) for name, found in hits.items()}
    saved = float(saved_ms(trace, windows, sets, replayed, plan.model)[tested].sum())
    return Backtest(
        [measures.window(window) for window in tested],
        rates | {"best_split_hindsight": max(constant)},
        SHARES[int(np.argmax(constant))],
        hit_rate_error(trace.codes[is_tested], replayed.hits[is_tested], plan.sample_share),
        saved - float(splits.saved_ms[0, tested].sum()),
        saved - plan.model.lookup_ms * int(is_tested.sum()),
        splits.evictions[-1],
        coverage(_by_rank(trace, windows, tested), int(is_tested.sum()), trace.entities),
    )


def _by_rank(trace: Trace, windows: Windows, tested: Sequence[int]) -> Floats:
    """(m,) requests for the most asked for entity of each window, the second, and so on, over all of them."""
    total = np.zeros(trace.entities)
    for window in tested:
        total += np.sort(realised(trace, windows, window))[::-1]
    return total

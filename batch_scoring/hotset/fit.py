"""What is fitted on the whole of a log so far, for a choice made now."""

from collections.abc import Callable
from dataclasses import dataclass

from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.expected import Calibration
from batch_scoring.hotset.plan import Plan, outlooks
from batch_scoring.hotset.profiles import Profile
from batch_scoring.hotset.redis_eviction import Eviction
from batch_scoring.hotset.split import SHARES, Splits
from batch_scoring.hotset.split import STEPS as SPLIT_STEPS
from batch_scoring.hotset.trace import Trace, Windows

# How often `advance` is called.
STEPS = SPLIT_STEPS


@dataclass(frozen=True)
class Fit:
    """`share` of the slots to precompute; `gain_share`: of the requests' live scoring that this saves beyond
    written-back results alone, in the windows it was fitted on, the scoring of the sets taken off;
    `eviction`: what Redis is best told."""

    profile: Profile
    calibration: Calibration
    share: float
    gain_share: float
    eviction: Eviction


def fit(trace: Trace, windows: Windows, plan: Plan, advance: Callable[[], None] = lambda: None) -> Fit:
    """Fitted on all windows, for the one that begins where they end."""
    views = outlooks(trace, windows, plan, len(windows) + 1)
    rankings = [view.paying for view in views[:-1]]
    splits = Splits(trace, windows, rankings, plan.slots, plan.most_fixed, plan.model, plan.server, advance)
    share = splits.fitted(len(windows))
    gained = (splits.saved_ms[SHARES.index(share)] - splits.saved_ms[0])[1:]
    asked_ms = live_ms(trace, windows, plan.model)
    return Fit(
        views[-1].profile,
        views[-1].calibration,
        share,
        float(gained.sum()) / asked_ms,
        splits.evictions[-1],
    )


def live_ms(trace: Trace, windows: Windows, model: CostModel) -> float:
    """What scoring every request after the first window live takes."""
    asked = trace.cost[trace.codes[windows.first[1] :]]
    return max(float(asked.sum()) * model.live_ms, model.live_ms)

"""What is fitted on the whole of a log so far, for a choice made now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.expected import Calibration
from batch_scoring.hotset.plan import Plan, View, outlooks
from batch_scoring.hotset.profiles import Profile
from batch_scoring.hotset.redis_eviction import Eviction
from batch_scoring.hotset.split import SHARES, Splits
from batch_scoring.hotset.split import STEPS as SPLIT_STEPS
from batch_scoring.hotset.trace import Floats, Trace, Windows

# How often `advance` is called.
STEPS = SPLIT_STEPS


@dataclass(frozen=True)
class Fit:
    """
    Attributes:
        share: of the slots to precompute.
        gain_share: of the requests' live scoring, what this saves beyond written-back results alone, in the
            windows it was fitted on, the scoring of the sets taken off.
        eviction: what Redis is best told; None where that was not fitted.
        fresh_share: of a precomputed entity's requests, how many come before its answer is too old.
    """

    profile: Profile
    calibration: Calibration
    share: float
    gain_share: float
    eviction: Eviction | None
    fresh_share: float = 1.0

    def expected(self, means: Floats) -> Floats:
        """(m,) requests before the next refresh that a precomputed answer would be there for."""
        return self.calibration(means) * self.fresh_share


def fit(trace: Trace, windows: Windows, plan: Plan, advance: Callable[[], None] = lambda: None) -> Fit:
    """Fitted on all windows, for the one that begins where they end."""
    views = outlooks(trace, windows, plan, len(windows) + 1)
    return fit_of(trace, windows, plan, views[-1], splits_of(trace, windows, plan, views, advance))


def splits_of(
    trace: Trace, windows: Windows, plan: Plan, views: Sequence[View], advance: Callable[[], None]
) -> Splits:
    """Of the windows that there are, what pays only: nothing else will be precomputed."""
    rankings = [view.paying for view in views[: len(windows)]]
    return Splits(trace, windows, rankings, plan.slots, plan.most_fixed, plan.model, plan.server, advance)


def fit_of(trace: Trace, windows: Windows, plan: Plan, ahead: View, splits: Splits) -> Fit:
    """`ahead`: what is known after the last window."""
    share = splits.fitted(len(windows))
    gained = (splits.saved_ms[SHARES.index(share)] - splits.saved_ms[0])[1:]
    gain_share = float(gained.sum()) / live_ms(trace, windows, plan.model)
    return Fit(ahead.profile, ahead.calibration, share, gain_share, splits.evictions[-1], plan.fresh_share)


def unfitted(half_life: float, fresh_share: float) -> Fit:
    """What is taken where the past is too short: what was will be, and all slots are for precomputed entities.

    `half_life`: in windows.
    """
    return Fit(Profile(half_life), Calibration((1.0,), (1.0,)), 1.0, 0.0, None, fresh_share)


def live_ms(trace: Trace, windows: Windows, model: CostModel) -> float:
    """What scoring every request after the first window live takes."""
    asked = trace.cost[trace.codes[windows.first[1] :]]
    return max(float(asked.sum()) * model.live_ms, model.live_ms)

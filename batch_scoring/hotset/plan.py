"""What a choice holds fixed, and what is known before each window."""

from dataclasses import dataclass, field

import numpy as np

from batch_scoring.hotset.choice import NO_LISTS, Lists, choose, ranked
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.expected import Calibration, Expectations
from batch_scoring.hotset.profiles import Profile
from batch_scoring.hotset.split import WrittenBack
from batch_scoring.hotset.trace import Floats, Ints, Trace, Windows


@dataclass(frozen=True)
class Plan:
    """What a backtest holds fixed.

    Attributes:
        slots: entities held, precomputed or written back; every baseline gets as many.
        most_fixed: how many of them may be precomputed.
        sample_share: of all entities that the trace was sampled from; slots are of the sample.
        fresh_share: of a precomputed entity's requests, how many come before its answer is too old.
    """

    slots: int
    most_fixed: int
    model: CostModel = field(default_factory=CostModel)
    server: WrittenBack = field(default_factory=WrittenBack)
    lists: Lists = NO_LISTS
    sample_share: float = 1.0
    seed: int = 1
    fresh_share: float = 1.0


@dataclass(frozen=True)
class View:
    """Known before a window, of the best `slots` entities.

    Attributes:
        ranking: codes, the most worth a byte first, whether or not they pay.
        paying: codes of those that are expected to pay, after the mandatory; `expected`: requests for each.
    """

    profile: Profile
    calibration: Calibration
    ranking: Ints
    paying: Ints
    expected: Floats
    mandatory: int

    def chosen(self, most: int) -> Ints:
        """The best `most` of those that pay; the mandatory also where they are more."""
        return self.paying[: max(most, self.mandatory)]


def outlooks(trace: Trace, windows: Windows, plan: Plan, count: int) -> list[View]:
    """Of the first `count` windows; the one after the last may be among them, as a choice made now wants it."""
    expectations = Expectations(trace, windows, plan.slots)
    return [_view(trace, plan, expectations, window) for window in range(count)]


def _view(trace: Trace, plan: Plan, expectations: Expectations, window: int) -> View:
    now = expectations.outlook(window)
    ranking = ranked(now.expected, now.means, trace, plan.model, plan.slots, plan.lists)
    paying = choose(now.expected * plan.fresh_share, now.means, trace, plan.model, plan.slots, lists=plan.lists)
    expected = np.asarray(now.expected[paying] * plan.fresh_share)
    return View(now.profile, now.calibration, ranking, paying, expected, len(plan.lists.mandatory))

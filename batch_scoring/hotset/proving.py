"""The night's choice tried on its own past, and beside the set in service: whether it may replace that one.

The set in service was chosen knowing everything up to its `as_of`. So both are compared in the windows that begin
there or later, which neither knew: the choice for each of them is the one that would have been made before it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from batch_scoring.hotset.baselines import baseline_hits
from batch_scoring.hotset.fit import Fit, fit_of, splits_of
from batch_scoring.hotset.measures import Measures, WindowResult
from batch_scoring.hotset.plan import Plan, outlooks
from batch_scoring.hotset.sampling import hit_rate_error
from batch_scoring.hotset.split import Replayed, replay, saved_ms
from batch_scoring.hotset.trace import Ints, Trace, Windows
from schemas.hotset_report import BASELINES, CHOICE

# Less than that says nothing of what returns: a short log is chosen from as it is.
FEWEST_WINDOWS, FEWEST_REQUESTS = 4, 1000
# By so much of the requests' live scoring a choice may be worse than yesterday's set, whatever the noise.
TOLERATED = 0.005
_DEVIATIONS = 2.0


@dataclass(frozen=True)
class Rival:
    """The set in service, of whom the choice may take: codes, in its own order. `as_of_s`: what it knew."""

    codes: Ints
    as_of_s: float


@dataclass(frozen=True)
class Duel:
    """The choice beside the set in service.

    Attributes:
        windows: in which they were compared.
        choice, rival: hit rates, with written-back results in the slots that each leaves.
        lead: of the choice, in live scoring saved, as a share of what scoring all requests live takes.
        noise: by which it may be behind: two standard errors, and at least `TOLERATED`.
    """

    windows: int
    choice: float
    rival: float
    lead: float
    noise: float

    @property
    def is_lost(self) -> bool:
        return self.lead < -self.noise


@dataclass(frozen=True)
class Proof:
    """What the past says. `rates`: over all tested windows; `duel`: None where no window may be compared."""

    fit: Fit
    windows: list[WindowResult]
    rates: dict[str, float]
    rival_rates: dict[float, float]
    standard_error: float
    duel: Duel | None


def why_too_short(trace: Trace, windows: Windows) -> str | None:
    """Why nothing can be fitted and tried on this log; None where it can."""
    if not len(trace.codes):
        return "no request"
    asked = int(np.count_nonzero(np.diff(windows.first)))
    if asked < FEWEST_WINDOWS:
        return f"requests in {asked} windows between refreshes: {FEWEST_WINDOWS} are needed"
    if len(trace.codes) < FEWEST_REQUESTS:
        return f"{len(trace.codes):,} requests: {FEWEST_REQUESTS:,} are needed"
    return None


def prove(trace: Trace, windows: Windows, plan: Plan, rival: Rival | None) -> Proof:
    """Fits on all windows, and tests all but the first third of them (at least two)."""
    views = outlooks(trace, windows, plan, len(windows) + 1)
    splits = splits_of(trace, windows, plan, views, lambda: None)
    fitted = [splits.fitted(window) for window in range(len(windows))]
    sets = [view.chosen(splits.fixed_slots(share)) for view, share in zip(views, fitted, strict=False)]
    evictions = splits.evictions[:-1]
    replayed = replay(trace, windows, sets, plan.slots, plan.server, evictions)
    hits = {CHOICE: replayed.hits}
    hits |= baseline_hits(trace, windows, plan.slots, plan.server.ttl_s, plan.seed, lambda: None, BASELINES)
    measures = Measures(trace, windows, views, fitted, sets, splits.replays, replayed, hits)
    asked = [window for window in range(len(windows)) if windows.first[window] < windows.first[window + 1]]
    begin = max(2, min(windows.history, len(windows) // 3))
    tested = [window for window in asked if window >= begin]
    is_tested = _mask(trace, windows, tested)
    duel, rival_rates = None, {}
    if rival is not None:
        fair = [window for window in asked if window > 0 and windows.edges_s[window] >= rival.as_of_s]
        if fair:
            others = [rival.codes if window in fair else one for window, one in enumerate(sets)]
            other = replay(trace, windows, others, plan.slots, plan.server, evictions)
            duel = _duel(trace, windows, plan, fair, (sets, replayed), (others, other))
            rival_rates = {
                float(windows.edges_s[window]): float(other.hits[windows.span(window)].mean()) for window in fair
            }
    return Proof(
        fit_of(trace, windows, plan, views[-1], splits),
        [measures.window(window) for window in tested],
        {name: float(found[is_tested].mean()) for name, found in hits.items()},
        rival_rates,
        hit_rate_error(trace.codes[is_tested], replayed.hits[is_tested], plan.sample_share),
        duel,
    )


def _duel(
    trace: Trace,
    windows: Windows,
    plan: Plan,
    fair: Sequence[int],
    choice: tuple[Sequence[Ints], Replayed],
    rival: tuple[Sequence[Ints], Replayed],
) -> Duel:
    saved = [float(saved_ms(trace, windows, *one, plan.model)[fair].sum()) for one in (choice, rival)]
    inside = _mask(trace, windows, fair)
    live_ms = float(trace.cost[trace.codes[inside]].sum()) * plan.model.live_ms
    ours, theirs = choice[1].hits[inside], rival[1].hits[inside]
    lead_each = ours.astype(np.float64) - theirs
    # Of entities, not of requests: one entity's requests are won or lost together.
    by_entity = np.bincount(trace.codes[inside], weights=lead_each)
    error = float(np.sqrt(np.sum(by_entity**2))) / len(lead_each)
    return Duel(
        len(fair),
        float(ours.mean()),
        float(theirs.mean()),
        (saved[0] - saved[1]) / live_ms,
        max(TOLERATED, _DEVIATIONS * error),
    )


def _mask(trace: Trace, windows: Windows, some: Collection[int]) -> np.ndarray:
    inside = np.zeros(len(trace.codes), np.bool_)
    for window in some:
        inside[windows.span(window)] = True
    return inside

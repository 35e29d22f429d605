"""How many slots hold precomputed entities and how many are left for written-back results, fitted on the past.

Each share of a grid is simulated over the whole trace, its set of every window chosen from that window's past and
its written-back results evicted as Redis does. Before a window, the share that saved most in the windows before it
is taken, newer ones counting more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.redis_eviction import LFU, LRU, Eviction, RedisCache
from batch_scoring.hotset.trace import Floats, Ints, Trace, Windows

Bools = npt.NDArray[np.bool_]
SHARES = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
# What a server may be told. The first is Redis's default of `lfu-decay-time`; with it, who was not asked for in
# some five minutes counts for nothing, and eviction is by chance where that is most keys.
EVICTIONS = (*(Eviction(LFU, minutes) for minutes in (1.0, 10.0, 60.0, 360.0)), Eviction(LRU))
# At which miss a result may be written back.
ADMISSIONS = (1, 2, 3)
# The share at which they are compared.
_MIDDLE = 0.5
# What a window counts beside the one after it.
_FADING = 0.8
# How often `advance` is called.
STEPS = len(SHARES) + len(EVICTIONS) + len(ADMISSIONS)


@dataclass(frozen=True)
class WrittenBack:
    """What the server does with written-back results.

    Attributes:
        ttl_s: None keeps them until they are evicted.
        max_age_s: from which on a precomputed answer is a miss as well; None is never before the next.
        evictions: what the server may be told; one of them is fitted where there are several.
        admissions: at which miss the API may write a result back; fitted likewise, for the eviction that was.
    """

    ttl_s: float | None = None
    evictions: tuple[Eviction, ...] = EVICTIONS
    admissions: tuple[int, ...] = ADMISSIONS
    seed: int = 1
    max_age_s: float | None = None


@dataclass(frozen=True)
class Replayed:
    """(n,) each. `fixed`: answered from the precomputed set; `cached`: from a written-back result."""

    fixed: Bools
    cached: Bools

    @property
    def hits(self) -> Bools:
        return self.fixed | self.cached


def replay(
    trace: Trace,
    windows: Windows,
    sets: Sequence[Ints],
    slots: int,
    server: WrittenBack,
    evictions: Sequence[Eviction],
) -> Replayed:
    """Every request, with the precomputed set of its window; what a set leaves of the slots is cache.

    Args:
        sets, evictions: of each window.
    """
    fixed, cached = np.zeros(len(trace.codes), np.bool_), np.zeros(len(trace.codes), np.bool_)
    cache = RedisCache(slots, server.evictions[0], server.ttl_s, server.seed)
    for window, (chosen, eviction) in enumerate(zip(sets, evictions, strict=True)):
        span = windows.span(window)
        if span.start == span.stop:
            continue
        codes, times_s = trace.codes[span], trace.times_s[span]
        is_chosen = np.zeros(trace.entities, np.bool_)
        is_chosen[chosen] = True
        fixed[span] = is_chosen[codes]
        if server.max_age_s is not None:
            fixed[span] &= times_s < windows.edges_s[window] + server.max_age_s
        cache.set_eviction(eviction)
        cache.resize(max(0, slots - len(chosen)), float(times_s[0]))
        rest = np.flatnonzero(~fixed[span])
        hits = map(cache.ask, codes[rest].tolist(), times_s[rest].tolist())
        cached[span.start + rest] = np.fromiter(hits, np.bool_, len(rest))
    return Replayed(fixed, cached)


class Splits:
    """The shares' simulations.

    Attributes:
        replays: one for each of `SHARES`.
        saved_ms: (shares, windows) what each share saves in each window.
        evictions: of each window and the one after the last, as fitted before it.
    """

    def __init__(
        self,
        trace: Trace,
        windows: Windows,
        rankings: Sequence[Ints],
        slots: int,
        most_fixed: int,
        model: CostModel,
        server: WrittenBack,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        """`rankings`: of each window, codes in order of worth, `slots` of them if there are."""
        self._trace, self._windows, self._model, self._server = trace, windows, model, server
        self._rankings, self._slots, self._most_fixed = rankings, slots, most_fixed
        self.evictions = self._fitted_evictions(advance)
        self.replays: list[Replayed] = []
        saved = []
        for share in SHARES:
            replayed, saved_here = self._tried(share, self.evictions[:-1])
            self.replays.append(replayed)
            saved.append(saved_here)
            advance()
        self.saved_ms = np.stack(saved)

    def fixed_slots(self, share: float) -> int:
        return min(self._most_fixed, round(share * self._slots))

    def fitted(self, window: int) -> float:
        """The share that saved most before `window`."""
        best = _best_before(self.saved_ms, window)
        return SHARES[-3] if best is None else SHARES[best]

    def _fitted_evictions(self, advance: Callable[[], None]) -> list[Eviction]:
        """One after the other, since all pairs would take as often as long."""
        count, first = len(self._windows) + 1, self._server.admissions[0]
        offered = [one._replace(written_after=first) for one in self._server.evictions]
        evictions = self._best([[one] * count for one in offered], advance)
        admitting = [[one._replace(written_after=after) for one in evictions] for after in self._server.admissions]
        return self._best(admitting, advance)

    def _best(self, offered: list[list[Eviction]], advance: Callable[[], None]) -> list[Eviction]:
        """Of each window, that of the offered which saved most before it. All are of each window and one more."""
        if len(offered) == 1:
            return offered[0]
        saved = []
        for one in offered:
            saved.append(self._tried(_MIDDLE, one[:-1])[1])
            advance()
        best = [_best_before(np.stack(saved), window) for window in range(len(offered[0]))]
        return [offered[one or 0][window] for window, one in enumerate(best)]

    def _tried(self, share: float, evictions: Sequence[Eviction]) -> tuple[Replayed, Floats]:
        sets = [ranking[: self.fixed_slots(share)] for ranking in self._rankings]
        replayed = replay(self._trace, self._windows, sets, self._slots, self._server, evictions)
        return replayed, saved_ms(self._trace, self._windows, sets, replayed, self._model)


def _best_before(saved: Floats, window: int) -> int | None:
    """Which row was best in the windows before; window 0 had no past to choose from and does not count."""
    ages = window - 1 - np.arange(1, window)
    return int(np.argmax(saved[:, 1:window] @ _FADING**ages)) if len(ages) else None


def saved_ms(trace: Trace, windows: Windows, sets: Sequence[Ints], replayed: Replayed, model: CostModel) -> Floats:
    """(windows,) ms of live scoring saved by hits, less what the set cost to score."""
    cost = trace.cost[trace.codes]
    worth = cost * model.live_ms * replayed.hits - model.stale_ms * replayed.fixed
    upto = np.concatenate([[0.0], np.cumsum(worth)])
    scored = [float(trace.cost[chosen].sum()) * model.batch_ms for chosen in sets]
    total: Floats = upto[windows.first[1 : len(sets) + 1]] - upto[windows.first[: len(sets)]] - np.array(scored)
    return total

"""A night's log that this process can hold: the same numbers without a Spark job for each, which costs more than
the counting."""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from batch_scoring.hotset.choosing import Choice, Room
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.coverage import coverage
from batch_scoring.hotset.everybody import choose_of
from batch_scoring.hotset.fit import Fit
from batch_scoring.hotset.nightly.log import Curve
from batch_scoring.hotset.nightly.log_rows import RowFacts
from batch_scoring.hotset.nightly.traffic import MINUTE_S, Traffic, summed
from batch_scoring.hotset.sampling import sampled
from batch_scoring.hotset.trace import Trace


class SmallLog:
    """A `Log`.

    Args:
        trace: all requests that count.
        known: the entities with features.
    """

    def __init__(self, trace: Trace, facts: RowFacts, known: ds.Dataset, as_of_s: float, refresh_s: float) -> None:
        self._trace, self._dataset, self.facts = trace, known, facts
        self._ages = (as_of_s - trace.times_s) / refresh_s
        found = set(self.known_of(list(trace.names)))
        self._is_known = np.fromiter((name in found for name in trace.names), np.bool_, trace.entities)

    def sample(self, most_requests: int) -> tuple[Trace, set[str], float]:
        unknown = {name for name, is_known in zip(self._trace.names, self._is_known, strict=True) if not is_known}
        trace, share = sampled(self._trace, most_requests)
        return trace, unknown, share

    def known_of(self, names: Sequence[str]) -> list[str]:
        if not names:
            return []
        wanted = pa.array(names, pa.string())
        found: set[str] = set()
        for batch in self._dataset.to_batches(columns=["entity"], filter=ds.field("entity").isin(wanted)):
            found.update(batch.column("entity").to_pylist())
        return [name for name in names if name in found]

    def count(self, fit: Fit, past: int) -> None:
        self._fit, self._past = fit, past
        inside = (self._ages > 0) & (self._ages <= past)
        self._weight = np.where(inside, fit.profile.weights(self._ages), 0.0)
        sums = np.bincount(self._trace.codes, weights=self._weight, minlength=self._trace.entities)
        # Rounded as Spark's, so that a log that grows does not change its order.
        self._sums = np.round(sums, 9)
        requests = np.bincount(self._trace.codes[inside], minlength=self._trace.entities)
        self._requests = requests.astype(np.float64)

    def close(self) -> None:
        """Nothing is held."""

    def choose(self, model: CostModel, room: Room, mandatory: Collection[str], blocked: Collection[str]) -> Choice:
        places = np.flatnonzero(self._is_known & (self._requests > 0))
        weights = {self._trace.names[place]: float(self._sums[place]) for place in places.tolist()}
        totals = len(places), float(self._sums[places].sum())
        return choose_of(weights, totals, self._past, self._fit, model, room, mandatory, blocked)

    def weights_of(self, names: Sequence[str]) -> list[float]:
        weights = dict(zip(self._trace.names, self._sums.tolist(), strict=True))
        return [weights.get(name, 0.0) for name in names]

    def curve(self, known: int) -> tuple[Curve, int]:
        of_known = self._requests[self._is_known & (self._requests > 0)]
        return coverage(of_known, float(self._requests.sum()), known), int(np.count_nonzero(self._requests))

    def traffic(self, hot: Sequence[str], old: Sequence[str], since_s: float | None) -> Traffic:
        if not len(self._trace.codes):
            return summed({}, None)
        minutes = np.floor(self._trace.times_s / MINUTE_S).astype(np.int64)
        names = pa.array(self._trace.names, pa.string())
        is_hot, is_old = (
            np.asarray(pc.is_in(names, pa.array(one, pa.string())))[self._trace.codes] for one in (hot, old)
        )
        each = {"requests": np.ones(len(minutes)), "hot": is_hot, "old": is_old, "weight": self._weight}
        each["hot_weight"] = self._weight * is_hot
        first = minutes.min()
        sums = {name: np.bincount(minutes - first, weights=values) for name, values in each.items()}
        return summed({"minute": first + np.arange(len(sums["requests"])), **sums}, since_s)

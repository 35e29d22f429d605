"""Which entities to precompute: by what they save a byte, until nothing more is saved or the budget is full."""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.trace import Floats, Ints, Trace


@dataclass(frozen=True)
class Lists:
    """Codes of entities that are always in, and of those that never are; an entity of both is never in."""

    mandatory: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()

    @classmethod
    def of(cls, trace: Trace, mandatory: Collection[str], blocked: Collection[str]) -> "Lists":
        code = {name: place for place, name in enumerate(trace.names)}
        never = frozenset(code[name] for name in blocked if name in code)
        return cls(frozenset(code[name] for name in mandatory if name in code) - never, never)


NO_LISTS = Lists()


def margins_ms(expected: Floats, cost: Floats, model: CostModel) -> Floats:
    """(m,) ms of scoring that precomputing each entity is expected to save before the next refresh."""
    return expected * (cost * model.live_ms - model.stale_ms) - cost * model.batch_ms


def choose(
    expected: Floats,
    means: Floats,
    trace: Trace,
    model: CostModel,
    most: int,
    budget_bytes: float = inf,
    lists: Lists = NO_LISTS,
) -> Ints:
    """Codes of the chosen: the mandatory, then what is expected to save, most a byte first.

    Args:
        expected: (m,) requests before the next refresh.
        means: (m,) decayed means of past requests, by which equal worths are ordered; then by the entity's bytes.
        most: how many at most; the mandatory count, but are in even where they are more.
        budget_bytes: of memory for all resident generations.
    """
    margin = margins_ms(expected, trace.cost, model)
    _, free = _listed(lists, trace.entities)
    worth = np.where(free & (margin > 0), margin / entity_bytes(trace, model), 0.0)
    return cut_to(by_worth(worth, means, trace, most), trace, model, most, budget_bytes, lists)


def cut_to(
    codes: Ints, trace: Trace, model: CostModel, most: int, budget_bytes: float = inf, lists: Lists = NO_LISTS
) -> Ints:
    """The mandatory, then the first of `codes` that are on neither list, while there is room."""
    size = entity_bytes(trace, model)
    always, free = _listed(lists, trace.entities)
    taken = codes[free[codes]][: max(0, most - len(always))]
    room = budget_bytes - float(size[always].sum())
    # The first that does not fit ends the choice: else it would depend on what happens to be small.
    fits = int(np.searchsorted(np.cumsum(size[taken]), room, side="right"))
    return np.concatenate([always, taken[:fits]])


def ranked(
    expected: Floats, means: Floats, trace: Trace, model: CostModel, most: int, lists: Lists = NO_LISTS
) -> Ints:
    """As `choose`, whether or not they save anything: all that was asked for, the most worth a byte first."""
    always, free = _listed(lists, trace.entities)
    worth = expected * (trace.cost * model.live_ms - model.stale_ms) / entity_bytes(trace, model)
    # Above zero, so that what is expected not to return is ordered by its means, not left out.
    worth = np.where(free & (means > 0), np.maximum(worth, np.finfo(np.float64).tiny), 0.0)
    return np.concatenate([always, by_worth(worth, means, trace, max(0, most - len(always)))])


def entity_bytes(trace: Trace, model: CostModel) -> Floats:
    """(m,) of memory, in all resident generations."""
    return model.generations * (trace.id_bytes + model.payload_bytes)


def _listed(lists: Lists, entities: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The mandatory, and (m,) who is on neither list."""
    always = np.array(sorted(lists.mandatory), dtype=np.int64)
    free = np.ones(entities, dtype=np.bool_)
    free[always] = False
    free[list(lists.blocked)] = False
    return always, free


def by_worth(worth: Floats, means: Floats, trace: Trace, most: int) -> Ints:
    """Codes of the largest positive worths, at most `most`; of equals by their means, then by their ids' bytes."""
    found = np.flatnonzero(worth > 0)
    if not most or not len(found):
        return found[:0]
    if len(found) > most:
        cut = np.partition(worth[found], len(found) - most)[len(found) - most]
        found = found[worth[found] >= cut]
    return found[np.lexsort((trace.rank[found], -means[found], -worth[found]))][:most]

"""A choice made now: from everybody's decayed means and what was fitted, to the entities to precompute."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, inf

import numpy as np

from batch_scoring.hotset.choice import Lists, choose, entity_bytes, margins_ms
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.coverage import coverage
from batch_scoring.hotset.fit import Fit
from batch_scoring.hotset.trace import BadLog, Floats, Trace

# The next step of the budget, as a share of what is precomputed.
_STEP = 0.1


@dataclass(frozen=True)
class Choice:
    """What to precompute, the most worth a byte first.

    Attributes:
        expected: (chosen,) requests before the next refresh.
        slots, fixed_slots: entities that the budget holds, and of these what the split gives to precomputed ones.
        total_expected: requests before the next refresh for all that `known` stands for.
        bytes: what the chosen take in all resident generations.
        next_step: what a tenth more entities would add: entities and expected requests.
        curve: (share of entities, share of expected traffic), the most asked for first.
        declined: why nothing should be precomputed, in words; None where something should.
    """

    entities: list[str]
    expected: Floats
    slots: int
    fixed_slots: int
    total_expected: float
    bytes: int
    net_ms: float
    next_step: tuple[int, float]
    curve: list[tuple[float, float]]
    declined: str | None

    @property
    def expected_share(self) -> float:
        """Of the requests that are expected, how many the chosen get."""
        return min(1.0, float(self.expected.sum()) / self.total_expected) if self.total_expected else 0.0


@dataclass(frozen=True)
class Room:
    """What the choice may hold: `slots` entities of `slot_bytes`, `most_fixed` precomputed, in `budget_bytes`."""

    slots: int
    most_fixed: int
    budget_bytes: float
    slot_bytes: float


def room_of(
    known: int, max_fraction: float, model: CostModel, mean_id_bytes: float, budget_bytes: float | None
) -> Room:
    """What a budget holds; without one, `max_fraction` of the known entities. Raises BadLog where that is none."""
    # As written, not as the nearest double: 0.29 of 100 is 29.
    most_fixed = max(1, floor(known * Fraction(str(max_fraction))))
    slot_bytes = model.slot_bytes(mean_id_bytes)
    if budget_bytes is None:
        return Room(most_fixed, most_fixed, inf, slot_bytes)
    slots = int(budget_bytes / slot_bytes)
    if not slots:
        raise BadLog(f"the budget holds no entity: one takes {slot_bytes:.0f} bytes")
    return Room(min(slots, known), min(slots, most_fixed), budget_bytes, slot_bytes)


def choose_now(
    known: Trace,
    means: Floats,
    fit: Fit,
    model: CostModel,
    room: Room,
    lists: Lists,
    total_expected: float | None = None,
    of_entities: int | None = None,
) -> Choice:
    """Chooses among the entities of `known`, whose requests are not looked at.

    Args:
        means: (m,) decayed mean requests a window.
        total_expected: requests expected of all entities, where `known` holds the most asked for only;
            `of_entities` is how many those are.
    """
    expected = fit.expected(means)
    total = float(fit.calibration(means).sum()) if total_expected is None else total_expected
    fixed_slots = min(room.most_fixed, round(fit.share * room.slots))
    chosen = choose(expected, means, known, model, fixed_slots, room.budget_bytes, lists)
    more = choose(expected, means, known, model, int(fixed_slots * (1 + _STEP)) + 1, np.inf, lists)
    gained = float(expected[more].sum() - expected[chosen].sum())
    found = Choice(
        [known.names[place] for place in chosen.tolist()],
        expected[chosen],
        room.slots,
        fixed_slots,
        total,
        int(entity_bytes(known, model)[chosen].sum()),
        float(margins_ms(expected, known.cost, model)[chosen].sum()) - model.lookup_ms * total,
        (max(0, len(more) - len(chosen)), max(0.0, gained)),
        coverage(expected, total, of_entities or known.entities),
        None,
    )
    return replace(found, declined=_declined(len(chosen), found.net_ms, fit))


def _declined(chosen: int, net_ms: float, fit: Fit) -> str | None:
    if not chosen and fit.share:
        return "no entity is expected to be asked for often enough before the next refresh to pay for scoring it"
    if not chosen:
        return "written-back results alone save as much with the same memory"
    if net_ms <= 0:
        return "look-ups and nightly scoring are expected to cost more than the hits save"
    return None

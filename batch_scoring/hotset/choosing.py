"""A choice made now: from everybody's decayed means and what was fitted, to the entities to precompute."""

from dataclasses import dataclass

import numpy as np

from batch_scoring.hotset.choice import Lists, choose, entity_bytes, margins_ms
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.coverage import coverage
from batch_scoring.hotset.fit import Fit
from batch_scoring.hotset.trace import Floats, Trace

# The next step of the budget, as a share of what is precomputed.
_STEP = 0.1


@dataclass(frozen=True)
class Choice:
    """What to precompute, the most worth a byte first.

    Attributes:
        expected: (chosen,) requests before the next refresh.
        slots, fixed_slots: entities that the budget holds, and of these what the split gives to precomputed ones.
        expected_share: of the requests that are expected of known entities, how many the chosen get.
        bytes: what the chosen take in all resident generations.
        next_step: what a tenth more entities would add: entities and expected requests.
        curve: (share of entities, share of expected traffic), the most asked for first.
        declined: why nothing should be precomputed, in words; None where something should.
    """

    entities: list[str]
    expected: Floats
    slots: int
    fixed_slots: int
    expected_share: float
    bytes: int
    net_ms: float
    next_step: tuple[int, float]
    curve: list[tuple[float, float]]
    declined: str | None


@dataclass(frozen=True)
class Room:
    """What the choice may hold: `slots` entities, `most_fixed` of them precomputed, in `budget_bytes`."""

    slots: int
    most_fixed: int
    budget_bytes: float


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
    expected = fit.calibration(means)
    total = float(expected.sum()) if total_expected is None else total_expected
    fixed_slots = min(room.most_fixed, round(fit.share * room.slots))
    chosen = choose(expected, means, known, model, fixed_slots, room.budget_bytes, lists)
    more = choose(expected, means, known, model, int(fixed_slots * (1 + _STEP)) + 1, np.inf, lists)
    net = float(margins_ms(expected, known.cost, model)[chosen].sum()) - model.lookup_ms * total
    gained = float(expected[more].sum() - expected[chosen].sum())
    return Choice(
        [known.names[place] for place in chosen.tolist()],
        expected[chosen],
        room.slots,
        fixed_slots,
        float(expected[chosen].sum()) / total if total else 0.0,
        int(entity_bytes(known, model)[chosen].sum()),
        net,
        (max(0, len(more) - len(chosen)), max(0.0, gained)),
        coverage(expected, total, of_entities or known.entities),
        _declined(len(chosen), net, fit),
    )


def _declined(chosen: int, net_ms: float, fit: Fit) -> str | None:
    if not chosen and fit.share:
        return "no entity is expected to be asked for often enough before the next refresh to pay for scoring it"
    if not chosen:
        return "written-back results alone save as much with the same memory"
    if net_ms <= 0:
        return "look-ups and nightly scoring are expected to cost more than the hits save"
    return None

"""Which set a night writes: its choice, yesterday's where that one does better, or none where none pays."""

from dataclasses import dataclass, replace

import numpy as np

from batch_scoring.hotset.choice import Lists, cut_to, entity_bytes, margins_ms
from batch_scoring.hotset.choosing import Choice
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.nightly.in_service import InService
from batch_scoring.hotset.nightly.trying import Trial
from batch_scoring.hotset.proving import Duel
from batch_scoring.hotset.trace import Floats, Ints, Trace
from schemas.hotset_report import Used


@dataclass(frozen=True)
class Decision:
    """`reason`: in words. `duel`: None where nothing could be compared."""

    used: Used
    reason: str
    duel: Duel | None = None


def decide(trial: Trial, choice: Choice, in_service: InService | None) -> Decision:
    duel = trial.proof.duel if trial.proof else None
    if duel and in_service and duel.is_lost:
        return Decision(Used.YESTERDAY, f"the set of {in_service.run.generation} is kept: {_told(duel)}", duel)
    if choice.declined and trial.is_log_empty:
        return Decision(Used.DECLINED, "no answered request in the log: nothing is known to be hot", duel)
    if choice.declined:
        return Decision(Used.DECLINED, choice.declined, duel)
    return Decision(Used.CHOICE, _why_choice(trial, duel, in_service), duel)


def _why_choice(trial: Trial, duel: Duel | None, in_service: InService | None) -> str:
    if in_service is None:
        return "no older set is in service that it could be compared with"
    old = in_service.run.generation
    if trial.why_not:
        return f"not compared with the set of {old}, since the log is too short: {trial.why_not}"
    if duel is None:
        return f"not compared with the set of {old}: no window that begins after its choice has requests"
    return f"no worse than the set of {old}: {_told(duel)}"


def _told(duel: Duel) -> str:
    windows = "the window" if duel.windows == 1 else f"{duel.windows} windows"
    return (
        f"in {windows} since it was chosen it would have answered {duel.rival:.1%} of the requests and the choice"
        f" {duel.choice:.1%}, which saves {abs(duel.lead):.1%} {'more' if duel.lead >= 0 else 'less'} of all live"
        f" scoring; noise is {duel.noise:.1%}"
    )


def kept(old: Trace, means: Floats, trial: Trial, choice: Choice, model: CostModel, lists: Lists) -> Choice:
    """`choice` with yesterday's set in its place, the lists and the room being today's.

    Args:
        old: the set's known entities and the mandatory, in the set's order.
        means: (m,) their decayed means of past requests, which say what is expected of them now.
    """
    room, expected = trial.room, trial.fit.expected(means)
    codes = cut_to(np.arange(old.entities), old, model, room.most_fixed, room.budget_bytes, lists)
    return replace(
        choice,
        entities=[old.names[code] for code in codes.tolist()],
        expected=expected[codes],
        fixed_slots=room.most_fixed,
        bytes=int(entity_bytes(old, model)[codes].sum()),
        net_ms=_net_ms(expected, old, codes, choice, model),
        declined=None,
    )


def only_mandatory(choice: Choice, mandatory: frozenset[str], model: CostModel) -> Choice:
    """`choice` where nothing pays: what must be in whatever it costs."""
    places = [place for place, name in enumerate(choice.entities) if name in mandatory]
    left = Trace.of(np.empty(0, np.int64), [choice.entities[place] for place in places])
    everyone = np.arange(left.entities)
    expected = choice.expected[places]
    return replace(
        choice,
        entities=list(left.names),
        expected=expected,
        bytes=int(entity_bytes(left, model).sum()),
        net_ms=_net_ms(expected, left, everyone, choice, model),
    )


def _net_ms(expected: Floats, trace: Trace, codes: Ints, choice: Choice, model: CostModel) -> float:
    saved = float(margins_ms(expected, trace.cost, model)[codes].sum())
    return saved - model.lookup_ms * choice.total_expected

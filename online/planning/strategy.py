"""Which way to more: replicas, tensor parallel, pipeline parallel, quantisation, a bigger card. Pure.

From one measured device, T(b), each way gets a T(b) of its own by rules of thumb that favour it (perfect splits,
full gain), so that a way which loses here loses in practice too; measure the winner before buying it.
"""

from dataclasses import dataclass, replace
from math import nan

from online.planning.batching import BatchMs
from online.planning.checks import OutOfRange, counts, not_negative, positive
from online.planning.prices import month_of
from online.planning.replica import Goal, Replica, size_batch
from online.planning.sizing import size
from online.planning.traffic import Traffic
from schemas.capacity import BatchTime

# A dearer one is not simpler by enough, a cheaper one not cheaper by enough.
_TIE = 0.1


@dataclass(frozen=True, slots=True)
class Question:
    """A model on one card, and what else could be had.

    Attributes:
        replica: one card as measured; where the weights do not fit on one, what it would take if they did.
        weight_gb, memory_gb: of the model as it is, and of a card for weights, caches and activations.
        cards: that tensor and pipeline parallelism split one copy over.
        layers, row_kb: layers of the model, and the activations of a row between two of them.
        link_gb_s, link_us: between cards: bandwidth, and time of a message.
        quantised_share: bytes of a weight after quantisation over before; its time falls as much at best.
        bigger_speed, bigger_memory_gb, bigger_price_per_hour: of the bigger card, speed over this one's.
    """

    replica: Replica
    rate_per_s: float
    goal: Goal
    weight_gb: float
    memory_gb: float
    cards: int = 2
    layers: int = 12
    row_kb: float = 200.0
    link_gb_s: float = 12.0
    link_us: float = 20.0
    quantised_share: float = 0.5
    bigger_speed: float = 2.0
    bigger_memory_gb: float = 40.0
    bigger_price_per_hour: float = 2.0

    def check(self) -> None:
        """Raises OutOfRange."""
        positive(rate_per_s=self.rate_per_s, weight_gb=self.weight_gb, memory_gb=self.memory_gb)
        positive(link_gb_s=self.link_gb_s, bigger_speed=self.bigger_speed, bigger_memory_gb=self.bigger_memory_gb)
        not_negative(row_kb=self.row_kb, link_us=self.link_us, bigger_price_per_hour=self.bigger_price_per_hour)
        counts(layers=self.layers, cards=self.cards)
        if self.cards < 2:
            raise OutOfRange("cards", self.cards, "2 or more: one card is not split over")
        if not 0 < self.quantised_share <= 1:
            raise OutOfRange("quantised_share", self.quantised_share, "above 0, at most 1")


@dataclass(frozen=True, slots=True)
class Way:
    """One row of the table. A group is what holds one copy of the model; NaN where nothing can be said.

    Attributes:
        memory_share: of the fullest card, by weights; over 1 they do not fit.
        rows_per_s: of one group with the batch it is sized by, at full load.
        is_in_budget: None without a budget, or where nothing can be said.
        lost_cards, lost_share: what one failed card takes with it.
        rule: where its T(b) comes from.
    """

    name: str
    memory_share: float
    batch_one_ms: float
    rows_per_s: float
    groups: int
    cards: int
    p50_ms: float
    p99_ms: float
    is_in_time: bool
    cost_per_month: float
    lost_cards: int
    lost_share: float
    rule: str
    is_in_budget: bool | None = None
    keeps_answers: bool = True

    @property
    def fits(self) -> bool:
        return self.memory_share <= 1

    @property
    def is_possible(self) -> bool:
        return self.fits and self.is_in_time


@dataclass(frozen=True, slots=True)
class Advice:
    """All ways, in order of simplicity; `best` is None where no way does it."""

    ways: list[Way]
    best: Way | None
    why: str


def advise(question: Question) -> Advice:
    """The table and the recommendation: the cheapest that fits and answers in time; of equals the simplest.

    A way that changes the answers is recommended only where no other does it, but what it would save is said. One
    over the budget is recommended only where all are, and that is said too.

    Raises:
        OutOfRange: names the field.
    """
    question.check()
    ways = [
        _replicas(question),
        _bigger(question),
        _quantised(question),
        _pipeline(question),
        _tensor(question),
    ]
    possible = [way for way in ways if way.is_possible]
    possible = [way for way in possible if way.keeps_answers] or possible
    if not possible:
        return Advice(ways, None, _why_none(ways))
    possible = [way for way in possible if way.is_in_budget is not False] or possible
    least = min(way.cost_per_month for way in possible)
    best = next(way for way in possible if way.cost_per_month <= least * (1 + _TIE))
    over = " Over the budget, as is all else that fits, is in time and keeps the answers."
    return Advice(ways, best, _why(best, ways, least) + (over if best.is_in_budget is False else ""))


def _replicas(q: Question) -> Way:
    return _way(q, "replicas", q.replica, 1, q.weight_gb / q.memory_gb, "as measured; each holds the whole model")


def _bigger(q: Question) -> Way:
    time = _scaled(q.replica.time, 1 / q.bigger_speed)
    replica = _like(q.replica, time, _times(q.replica, 1 / q.bigger_speed), q.bigger_price_per_hour)
    rule = f"T(b) / {q.bigger_speed:g}"
    return _way(q, "bigger card", replica, 1, q.weight_gb / q.bigger_memory_gb, rule)


def _quantised(q: Question) -> Way:
    time = _scaled(q.replica.time, q.quantised_share)
    replica = _like(q.replica, time, _times(q.replica, q.quantised_share), q.replica.price_per_hour)
    rule = f"T(b) x {q.quantised_share:g} at best; the answers change"
    way = _way(q, "quantisation", replica, 1, q.weight_gb * q.quantised_share / q.memory_gb, rule)
    return replace(way, keeps_answers=False)


def _tensor(q: Question) -> Way:
    """T(b) / n and two all-reduces a layer (Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3).

    A ring moves 2 (n - 1) / n of the data over each link in 2 (n - 1) messages (Patarasuk and Yuan, 2009).
    """
    n = q.cards
    row_ms = 2 * q.layers * 2 * (n - 1) / n * q.row_kb / (q.link_gb_s * 1e3)
    batch_ms = 2 * q.layers * 2 * (n - 1) * q.link_us / 1e3
    time = BatchTime(q.replica.time.tau0_ms / n + batch_ms, q.replica.time.alpha_ms / n + row_ms)
    measured = q.replica.measured

    def split_ms(rows: int) -> float:
        return q.replica.batch_ms(rows) / n + batch_ms + row_ms * rows

    replica = _like(q.replica, time, None if measured is None else split_ms, n * q.replica.price_per_hour)
    rule = f"T(b) / {n} and {2 * q.layers} all-reduces"
    return _way(q, "tensor parallel", replica, n, q.weight_gb / n / q.memory_gb, rule)


def _pipeline(q: Question) -> Way:
    """A stage takes T(b) / n, so batches follow n times as fast; each still takes T(b) and n - 1 hops.

    With batches in flight all the time there is no bubble but when traffic pauses (`pipelines.py`).
    """
    n, goal = q.cards, q.goal
    hop_ms, row_ms = q.link_us / 1e3, q.row_kb / (q.link_gb_s * 1e3)
    time, measured, price = _scaled(q.replica.time, 1 / n), _times(q.replica, 1 / n), n * q.replica.price_per_hour
    stage = _like(q.replica, time, measured, price)
    # A request waits for one stage's batch, then goes through n stages.
    rows = min(stage.knee_rows, stage.fitting_rows(goal.p99_ms - q.replica.outside.fixed_ms, n + 1))
    rest_ms = (n - 1) * (stage.batch_ms(rows) + hop_ms + row_ms * rows)
    rule = f"a stage T(b) / {n}, then {n - 1} more and as many hops"
    replica = _like(q.replica, time, measured, price, rest_ms)
    one_ms = n * stage.batch_ms(1) + (n - 1) * (hop_ms + row_ms)
    return _way(q, "pipeline parallel", replica, n, q.weight_gb / n / q.memory_gb, rule, one_ms)


def _way(
    q: Question,
    name: str,
    replica: Replica,
    cards: int,
    memory_share: float,
    rule: str,
    one_ms: float | None = None,
) -> Way:
    one_ms = replica.batch_ms(1) if one_ms is None else one_ms
    try:
        batch = size_batch(replica, q.goal)
    except OutOfRange:  # not even one row is in time
        return Way(name, memory_share, one_ms, nan, 0, 0, nan, nan, False, nan, cards, nan, rule)
    (fleet,) = size(replica, Traffic(q.rate_per_s, 1.0), q.goal)
    return Way(
        name,
        memory_share,
        one_ms,
        batch.rows_per_s,
        fleet.replicas,
        fleet.replicas * cards,
        fleet.p50_ms,
        fleet.p99_ms,
        fleet.is_in_time,
        fleet.replicas * month_of(replica.price_per_hour),
        cards,
        1 / fleet.replicas,
        rule,
        fleet.is_in_budget,
    )


def _scaled(time: BatchTime, factor: float) -> BatchTime:
    return BatchTime(time.tau0_ms * factor, time.alpha_ms * factor)


def _times(replica: Replica, factor: float) -> BatchMs | None:
    measured = replica.measured
    return None if measured is None else lambda rows: measured(rows) * factor


def _like(
    replica: Replica, time: BatchTime, measured: BatchMs | None, price_per_hour: float, rest_ms: float = 0.0
) -> Replica:
    return Replica(time, replica.max_batch_rows, price_per_hour, None, replica.outside.later(rest_ms), measured)


def _why(best: Way, ways: list[Way], least: float) -> str:
    """In words, with what speaks against each of the others."""
    others = [f"{way.name} {_against(way, best)}" for way in ways if way is not best]
    how = "the cheapest" if best.cost_per_month <= least else f"within {_TIE:.0%} of the cheapest, and simpler"
    return f"{best.name}: fits, p99 {best.p99_ms:.1f} ms, {how}. " + "; ".join(others) + "."


def _against(way: Way, best: Way) -> str:
    if not way.fits:
        return f"does not fit ({way.memory_share:.0%} of a card)"
    if not way.is_in_time:
        return "is not in time"
    more = way.cost_per_month / best.cost_per_month - 1 if best.cost_per_month else 0.0
    if more > 0:
        return f"costs {more:.0%} more" + (
            f" and loses {way.lost_cards} cards at once" if way.lost_cards > 1 else ""
        )
    less = f"costs {-more:.0%} less"
    return less if way.keeps_answers else f"{less} at best, if its changed answers are good enough: measure them"


def _why_none(ways: list[Way]) -> str:
    return "no way does it: " + "; ".join(
        f"{way.name} {'does not fit' if not way.fits else 'is not in time'}" for way in ways
    )

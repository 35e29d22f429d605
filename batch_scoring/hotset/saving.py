"""What a choice saves, in replicas and in money, from the costs of rows alone: no batches are reckoned with."""

from dataclasses import dataclass

from batch_scoring.hotset.choosing import Choice
from batch_scoring.hotset.cost import CostModel
from schemas.capacity import TARGET_UTILISATION, replicas_needed


@dataclass(frozen=True)
class Saving:
    """
    Attributes:
        replicas: fewer in the busiest minute, each scoring one row after another; None where the log has no times.
        money_a_day: for these, by the price of an hour; None without a price.
    """

    replicas: int | None
    money_a_day: float | None


def saving(found: Choice, model: CostModel, peak_per_s: float | None, price: float | None) -> Saving:
    """`peak_per_s`: requests of the log's busiest minute. The set is taken to answer its mean share of them."""
    if peak_per_s is None or found.declined:
        return Saving(None, None)
    each = TARGET_UTILISATION * 1000 / model.live_ms
    tail = peak_per_s * (1 - found.expected_share)
    replicas = replicas_needed(peak_per_s, each) - replicas_needed(tail, each)
    return Saving(replicas, None if price is None else replicas * price * 24)

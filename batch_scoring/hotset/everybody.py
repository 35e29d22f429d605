"""The choice from decayed sums of requests of many entities, of which only the largest need to be at hand."""

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_scoring.hotset.choice import Lists
from batch_scoring.hotset.choosing import Choice, Room, choose_now
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.fit import Fit
from batch_scoring.hotset.trace import Floats, Trace


def choose_among(
    counts: DataFrame,
    past: int,
    fitted: Fit,
    model: CostModel,
    room: Room,
    mandatory: Collection[str],
    blocked: Collection[str],
) -> Choice:
    """Chooses among those of `counts`, and the mandatory.

    Args:
        counts: (entity, weight, requests) of `decayed_counts` over `past` windows; read several times.
    """
    totals = counts.agg(F.count("*"), F.sum("weight")).first()
    assert totals
    # By weight, not by worth a byte: an id of many bytes needs more of it. Twice as many leave room for that.
    top = counts.orderBy(F.col("weight").desc(), "entity").limit(2 * room.most_fixed + len(blocked))
    weights = _weights(top)
    if mandatory:
        weights |= _weights(counts.where(F.col("entity").isin([*mandatory])))
    return choose_of(
        weights, (int(totals[0]), float(totals[1] or 0.0)), past, fitted, model, room, mandatory, blocked
    )


def choose_of(
    weights: Mapping[str, float],
    totals: tuple[int, float],
    past: int,
    fitted: Fit,
    model: CostModel,
    room: Room,
    mandatory: Collection[str],
    blocked: Collection[str],
) -> Choice:
    """
    Args:
        weights: the largest decayed sums over `past` windows.
        totals: how many entities there are, and the sum of all their weights.
    """
    names = sorted({*weights, *mandatory})
    known = Trace.of(np.empty(0, np.int64), names)
    sums = np.array([weights.get(name, 0.0) for name in names], np.float64)
    means = means_of(sums, fitted, past)
    # Of all, by the same points: what lies below the largest is near proportional.
    total = float(fitted.calibration(means).sum()) * totals[1] / max(float(sums.sum()), 1e-9)
    lists = Lists.of(known, mandatory, blocked)
    return choose_now(known, means, fitted, model, room, lists, total, totals[0])


def means_of(sums: Floats, fitted: Fit, past: int) -> Floats:
    """Decayed means a window of decayed sums over `past` windows."""
    return sums / fitted.profile.windows(past)


def _weights(rows: DataFrame) -> dict[str, float]:
    found = rows.select("entity", "weight").toArrow()
    assert isinstance(found, pa.Table)
    return dict(zip(found["entity"].to_pylist(), found["weight"].to_pylist(), strict=True))

"""Latency of one batching device at a rate: textbook estimate, proven bound and simulation side by side. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from online.planning.batching import inoue_bound_ms, saturation_per_s, textbook
from online.planning.checks import OutOfRange, positive
from online.planning.device_queue import BatchingRule
from online.planning.replica import Replica
from online.planning.simulation import REQUESTS, Simulated, simulate

# Of what full batches give: the middles of twentieths.
CURVE_LOADS = tuple((step + 0.5) / 20 for step in range(20))
# A point of a curve; its interval is drawn from it, and says what that costs in certainty.
CURVE_REQUESTS = 6_400


@dataclass(frozen=True, slots=True)
class Latency:
    """At `rate_per_s`. Formulas are NaN where they do not hold: saturated, or for what no line fits.

    `utilisation` is of what full batches give; `steady_*` and `textbook_*` as in `batching.Textbook`.
    """

    rate_per_s: float
    utilisation: float
    steady_batch_rows: float
    steady_batch_ms: float
    textbook_mean_ms: float
    textbook_tail_ms: float
    bound_mean_ms: float
    simulated: Simulated


def latency_at(
    replica: Replica, rate_per_s: float, rule: BatchingRule, *, requests: int = REQUESTS, seed: int = 1
) -> Latency:
    """Raises OutOfRange."""
    positive(rate_per_s=rate_per_s)
    time, cap = replica.time, replica.max_batch_rows
    is_steady = rate_per_s < saturation_per_s(time, cap) and replica.measured is None
    estimate = textbook(time, rate_per_s, cap) if is_steady else None
    has_bound = is_steady and rate_per_s * time.alpha_ms < 1e3
    return Latency(
        rate_per_s=rate_per_s,
        utilisation=rate_per_s * replica.batch_ms(cap) / 1e3 / cap,
        steady_batch_rows=estimate.batch_rows if estimate else nan,
        steady_batch_ms=estimate.batch_ms if estimate else nan,
        textbook_mean_ms=estimate.mean_ms if estimate else nan,
        textbook_tail_ms=estimate.tail_ms if estimate else nan,
        bound_mean_ms=inoue_bound_ms(time, rate_per_s) if has_bound else nan,
        simulated=simulate(rate_per_s, replica.batch_ms, rule, requests=requests, seed=seed),
    )


def latency_curve(
    replica: Replica, loads: Sequence[float] = CURVE_LOADS, *, requests: int = CURVE_REQUESTS, seed: int = 1
) -> list[Latency]:
    """Latency against load, shares of what full batches give, with the device's cap and no delay or deadline.

    Raises:
        OutOfRange: names the field.
    """
    for load in loads:
        if not 0 < load < 1:
            raise OutOfRange("load", load, "a share above 0 and below 1")
    cap = replica.max_batch_rows
    full_per_s = 1e3 * cap / replica.batch_ms(cap)
    rule = BatchingRule(cap)
    return [latency_at(replica, load * full_per_s, rule, requests=requests, seed=seed) for load in loads]

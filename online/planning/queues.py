"""Without batching: each replica answers one request after the other. Pure.

The load balancer is taken to send each request to a replica at random, so that every replica has a Poisson stream
of its own; sending to the least loaded one waits less.
"""

from dataclasses import dataclass
from math import ceil, log

from online.planning.checks import OutOfRange, between, not_negative, positive

MM1, MD1 = "M/M/1", "M/D/1"
# Rows of a table that somebody still reads.
MOST_MORE = 100


@dataclass(frozen=True, slots=True)
class Waiting:
    """Of one queue: share of time it is busy, mean wait, and mean latency (wait and service), in ms."""

    model: str
    utilisation: float
    wait_ms: float
    latency_ms: float


def mm1(rate_per_s: float, service_ms: float) -> Waiting:
    """Poisson arrivals, exponential service: wait = rho / (1 - rho) * S.

    Source: Kleinrock, "Queueing Systems" volume 1, section 3.2. Pessimistic for inference, whose service time
    hardly varies.
    """
    rho = _utilisation(rate_per_s, service_ms)
    wait_ms = rho / (1 - rho) * service_ms
    return Waiting(MM1, rho, wait_ms, wait_ms + service_ms)


def md1(rate_per_s: float, service_ms: float) -> Waiting:
    """Poisson arrivals, constant service: half the wait of M/M/1.

    Source: Pollaczek-Khinchine formula with no variance (Kleinrock, volume 1, section 5.6).
    """
    rho = _utilisation(rate_per_s, service_ms)
    wait_ms = rho / (2 * (1 - rho)) * service_ms
    return Waiting(MD1, rho, wait_ms, wait_ms + service_ms)


def mm1_quantile_ms(rate_per_s: float, service_ms: float, share: float) -> float:
    """Latency that `share` of the requests of an M/M/1 queue stay under: it is exponential (Kleinrock, 3.2)."""
    if not 0 <= share < 1:
        raise OutOfRange("share", share, "from 0 to below 1")
    return -log(1 - share) * mm1(rate_per_s, service_ms).latency_ms


def least_replicas(rate_per_s: float, service_ms: float, spare: int = 0) -> int:
    """The fewest that keep up at all, rate * S below their number, and `spare` more for those that fail."""
    not_negative(rate_per_s=rate_per_s, spare=spare)
    positive(service_ms=service_ms)
    load = rate_per_s * service_ms / 1e3
    return max(1, ceil(load) + (load == ceil(load) and load > 0)) + spare


@dataclass(frozen=True, slots=True)
class Provision:
    """So many replicas without batching, what they wait and what they cost beside the fewest that keep up."""

    replicas: int
    mm1: Waiting
    md1: Waiting
    cost_per_month: float
    over_fewest_per_month: float


def provisions(rate_per_s: float, service_ms: float, price_per_month: float, more: int = 4) -> list[Provision]:
    """From the fewest replicas that keep up to `more` more: what each step of over-provisioning buys and costs."""
    positive(rate_per_s=rate_per_s)
    not_negative(price_per_month=price_per_month)
    between(0, MOST_MORE, more=more)
    fewest = least_replicas(rate_per_s, service_ms)
    return [
        Provision(
            replicas,
            mm1(rate_per_s / replicas, service_ms),
            md1(rate_per_s / replicas, service_ms),
            replicas * price_per_month,
            (replicas - fewest) * price_per_month,
        )
        for replicas in range(fewest, fewest + more + 1)
    ]


def _utilisation(rate_per_s: float, service_ms: float) -> float:
    not_negative(rate_per_s=rate_per_s)
    positive(service_ms=service_ms)
    if (rho := rate_per_s * service_ms / 1e3) >= 1:
        raise OutOfRange(
            "rate_per_s", f"{rate_per_s:g}", f"from 0 to below {1e3 / service_ms:.6g} for one replica"
        )
    return rho

"""Serverless or always on: the price of a request, where both cost the same, cold starts. Pure."""

from dataclasses import dataclass
from math import ceil, exp, inf

from online.planning.checks import counts, not_negative, positive, shares
from online.planning.prices import SECONDS_PER_MONTH, SERVERLESS_GB_S, month_of


def request_price(
    memory_gb: float,
    duration_ms: float,
    price_per_gb_s: float = SERVERLESS_GB_S.value,
    price_per_request: float = 0.0,
) -> float:
    """What one request costs: memory x time x price, and the fee of a call. Raises OutOfRange.

    Durations are billed by the millisecond, rounded up. Free allowances are left out.

    Source: AWS Lambda's price page, "duration" and "requests".
    """
    positive(memory_gb=memory_gb, duration_ms=duration_ms)
    not_negative(price_per_gb_s=price_per_gb_s, price_per_request=price_per_request)
    return memory_gb * ceil(round(duration_ms, 6)) / 1e3 * price_per_gb_s + price_per_request


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Below `rate_per_s`, `requests_per_month`, serverless is cheaper; infinite where it always is."""

    always_on_per_month: float
    requests_per_month: float
    rate_per_s: float


def break_even(price_of_request: float, machines: int, price_per_hour: float) -> BreakEven:
    """Where both cost the same: always-on price of a month over the price of a request. A month has 730 hours."""
    not_negative(price_of_request=price_of_request, price_per_hour=price_per_hour)
    counts(machines=machines)
    month = machines * month_of(price_per_hour)
    requests = month / price_of_request if price_of_request else inf
    return BreakEven(month, requests, requests / SECONDS_PER_MONTH)


def serverless_per_month(rate_per_s: float, price_of_request: float) -> float:
    not_negative(rate_per_s=rate_per_s, price_of_request=price_of_request)
    return rate_per_s * SECONDS_PER_MONTH * price_of_request


def cold_start_share(rate_per_s: float, keep_warm_s: float) -> float:
    """Share of requests that find no warm instance at little traffic: exp(-rate x keep-warm time).

    With Poisson arrivals, that many gaps are longer than the platform keeps an idle instance. Requests that
    overlap start further instances and are left out, so under load the share is higher than this until enough are
    warm. An estimate from the distribution of gaps.
    """
    not_negative(rate_per_s=rate_per_s, keep_warm_s=keep_warm_s)
    return exp(-rate_per_s * keep_warm_s)


def latency_with_cold_starts_ms(duration_ms: float, cold_start_ms: float, cold_share: float) -> float:
    """Mean latency; the law of total expectation."""
    not_negative(duration_ms=duration_ms, cold_start_ms=cold_start_ms)
    shares(cold_share=cold_share)
    return duration_ms + cold_share * cold_start_ms

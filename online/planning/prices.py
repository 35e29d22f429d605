"""Prices that are used where none is given, each with its source and date. Check them: prices change.

All in US dollars, on demand, AWS us-east-1.
"""

from typing import NamedTuple

# 365 days of 24 hours over twelve months, as cloud price lists count.
HOURS_PER_MONTH = 730
SECONDS_PER_MONTH = HOURS_PER_MONTH * 3600


class Price(NamedTuple):
    """`dated`: the month whose price list it is from."""

    value: float
    unit: str
    what: str
    dated: str

    def __str__(self) -> str:
        return f"{self.value:.10g} {self.unit} ({self.what}, {self.dated})"


SERVERLESS_GB_S = Price(0.0000166667, "$/GB-s", "AWS Lambda, x86, first tier", "2025-01")
SERVERLESS_REQUEST = Price(0.0000002, "$/request", "AWS Lambda", "2025-01")
MACHINE_HOUR = Price(0.34, "$/h", "AWS c5.2xlarge, 8 vCPU", "2025-01")
GPU_HOUR = Price(0.526, "$/h", "AWS g4dn.xlarge, one T4", "2025-01")


def month_of(price_per_hour: float) -> float:
    """What runs all the time, for a month."""
    return price_per_hour * HOURS_PER_MONTH

"""Prices that are used where none is given: examples to be replaced by yours, each with its source and month.

All in US dollars, on demand, Linux, AWS us-east-1, before any discount or free allowance. They are list prices as
their sources print them; nobody fetches newer ones.
"""

from typing import NamedTuple

from online.planning.checks import not_negative

# 365 days of 24 hours over twelve months, as cloud price lists count.
HOURS_PER_MONTH = 730
SECONDS_PER_MONTH = HOURS_PER_MONTH * 3600


class Price(NamedTuple):
    """`dated`: the month that it is said to hold for; `source`: where that is said."""

    value: float
    unit: str
    what: str
    dated: str
    source: str

    def __str__(self) -> str:
        return f"{self.value:.10g} {self.unit} (an example, {self.what}, {self.dated})"


_LAMBDA = (
    'AWS whitepaper "How AWS Pricing Works", section Lambda; its seventh digit from aws.amazon.com/lambda/pricing'
)
_EC2 = "aws.amazon.com/ec2/pricing/on-demand, as public cost tables of 2024 and 2025 quote it"

SERVERLESS_GB_S = Price(0.0000166667, "$/GB-s", "AWS Lambda, x86, first tier", "2025-01", _LAMBDA)
SERVERLESS_REQUEST = Price(0.0000002, "$/request", "AWS Lambda", "2025-01", _LAMBDA)
MACHINE_HOUR = Price(0.34, "$/h", "AWS c5.2xlarge, 8 vCPU", "2025-01", _EC2)
GPU_HOUR = Price(0.526, "$/h", "AWS g4dn.xlarge, one T4", "2025-01", _EC2)


def month_of(price_per_hour: float) -> float:
    """What runs all the time, for a month. Raises OutOfRange."""
    not_negative(price_per_hour=price_per_hour)
    return price_per_hour * HOURS_PER_MONTH

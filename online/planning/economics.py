"""Whether a model pays for its training. Pure."""

from dataclasses import dataclass
from math import ceil

from online.planning.checks import OutOfRange, not_negative, positive


@dataclass(frozen=True, slots=True)
class EarnBack:
    """Requests until the margin has paid for the training; months at the volume given, else None."""

    margin_per_request: float
    requests: int
    months: float | None


def earn_back(
    training_cost: float,
    price_per_request: float,
    cost_per_request: float,
    requests_per_month: float | None = None,
) -> EarnBack:
    """Requests needed = training cost / (price - cost of a request): the break-even of fixed and unit costs.

    Raises:
        OutOfRange: a price that does not exceed the cost never earns anything back.
    """
    not_negative(training_cost=training_cost, cost_per_request=cost_per_request)
    positive(price_per_request=price_per_request)
    if price_per_request <= cost_per_request:
        raise OutOfRange(
            "price_per_request", f"{price_per_request:g}", f"above cost_per_request, which is {cost_per_request:g}"
        )
    margin = price_per_request - cost_per_request
    requests = ceil(round(training_cost / margin, 6))
    if requests_per_month is None:
        return EarnBack(margin, requests, None)
    positive(requests_per_month=requests_per_month)
    return EarnBack(margin, requests, requests / requests_per_month)

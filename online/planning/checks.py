"""What the planner accepts: every refused value is named by its field, with the range that is allowed."""

from math import isfinite

# Beyond these no rate, time, size or price is meant, and products of them would leave what floats can hold.
SMALLEST, LARGEST = 1e-15, 1e15


class OutOfRange(ValueError):
    """`field` holds a value outside `allowed`, which says the range in words."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field} is {value}: allowed is {allowed}")
        self.field, self.allowed = field, allowed


def positive(**values: float) -> None:
    """Raises OutOfRange for what is not finite or not above 0, and beyond `SMALLEST` and `LARGEST`."""
    for field, value in values.items():
        if not (isfinite(value) and SMALLEST <= value <= LARGEST):
            raise OutOfRange(field, value, f"a finite number above 0, from {SMALLEST:g} to {LARGEST:g}")


def not_negative(**values: float) -> None:
    """Raises OutOfRange for what is not finite or below 0, and beyond `LARGEST`."""
    for field, value in values.items():
        if not (isfinite(value) and 0 <= value <= LARGEST):
            raise OutOfRange(field, value, f"a finite number from 0 on, at most {LARGEST:g}")


def shares(**values: float) -> None:
    """Raises OutOfRange outside 0 to 1, both included."""
    for field, value in values.items():
        if not 0 <= value <= 1:
            raise OutOfRange(field, value, "a share from 0 to 1")


def counts(**values: int) -> None:
    """Raises OutOfRange for what is no whole number from 1 on, and beyond `LARGEST`."""
    for field, value in values.items():
        if not (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST):
            raise OutOfRange(field, value, f"a whole number from 1 on, at most {LARGEST:g}")


def between(low: float, high: float, **values: float) -> None:
    """Raises OutOfRange outside `low` to `high`, both included."""
    for field, value in values.items():
        if not low <= value <= high:
            raise OutOfRange(field, value, f"from {low:g} to {high:g}")

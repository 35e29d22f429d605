"""Time ranges of the site: which UTC time a page covers, and in which steps. Pure.

A window is a whole number of steps on the epoch's grid and ends with the step that holds `now`, so that no bar
but the last is cut, and partitions of an hour or a day are never split for the long ranges.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A choice in the page's head. `grid_s` divides the window's edges, `step_s` is the width of a bar."""

    key: str
    title: str
    span_s: int
    step_s: int
    grid_s: int
    ticks: int


RANGES = (
    TimeRange("1h", "last hour", 3600, 60, 300, 5),
    TimeRange("24h", "last 24 hours", 86_400, 900, 900, 5),
    TimeRange("7d", "last 7 days", 7 * 86_400, 3 * 3600, 3 * 3600, 5),
    TimeRange("28d", "last 28 days", 28 * 86_400, 12 * 3600, 12 * 3600, 5),
)
DEFAULT_RANGE = RANGES[1]


@dataclass(frozen=True, slots=True)
class Window:
    """`start_s` (inclusive) to `end_s` (exclusive), seconds since the epoch; `now_s` lies in the last step."""

    range: TimeRange
    start_s: int
    end_s: int
    now_s: int

    @property
    def steps(self) -> int:
        return (self.end_s - self.start_s) // self.range.step_s

    @property
    def minutes(self) -> tuple[int, int, int]:
        """Its first minute since the epoch, the minutes of a step, and how many steps."""
        return self.start_s // MINUTE_S, self.range.step_s // MINUTE_S, self.steps

    def step_start(self, step: int) -> datetime:
        """The moment at which a step begins; `steps` gives the window's end."""
        return utc(self.start_s + step * self.range.step_s)

    def tick_labels(self) -> list[str]:
        """Labels at equal distances from the left edge to the right, both included."""
        gap = (self.end_s - self.start_s) // (self.range.ticks - 1)
        shape = "%H:%M" if self.range.span_s <= 3600 else "%d %b %H:%M"
        return [format(utc(self.start_s + gap * place), shape) for place in range(self.range.ticks)]


def find_range(key: str) -> TimeRange | None:
    return next((found for found in RANGES if found.key == key), None)


def window_at(chosen: TimeRange, now_s: float) -> Window:
    """The window of a range that ends with the step holding `now_s`."""
    end_s = (int(now_s) // chosen.grid_s + 1) * chosen.grid_s
    return Window(chosen, end_s - chosen.span_s, end_s, int(now_s))


def utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

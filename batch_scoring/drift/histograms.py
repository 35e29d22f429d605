"""The bins of a bundle's baseline, and the counts that a window of the log has in them. Pure; no Spark.

A value is counted under one of: a bin of the baseline, outside (beyond the range, or a category the baseline
did not have), null (or nothing the feature could be), absent (the record has no such name), withheld (kept out
of the log on purpose).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from schemas.drift import CATEGORY
from schemas.features import Column
from schemas.manifest import BASELINE_FILE

# Marks of the tallies that are no bin.
BELOW, ABOVE, NEW, MORE_NEW = "below", "above", "new", "more_new"
NULL, ABSENT, WITHHELD = "null", "absent", "withheld"
# What travels as the name of a new category, and how many of them from each batch of rows.
_SHOWN_CHARACTERS = 100
_MOST_NEW = 50

Tally = Counter[tuple[str, str]]  # (what, bin or name) to rows; what is "bin" or a mark above


@dataclass(frozen=True, slots=True)
class Baseline:
    """One feature or output of `baseline.parquet`: (k,) counts in bins between edges, or of values."""

    side: str
    name: str
    type: str
    rows: int
    nulls: int
    edges: tuple[float, ...]
    values: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.side, self.name

    @property
    def is_category(self) -> bool:
        return self.type == CATEGORY

    @property
    def unlisted(self) -> int:
        """Rows whose category is beyond the number of values that a baseline lists."""
        return max(0, self.rows - self.nulls - sum(self.counts)) if self.is_category else 0


@dataclass(slots=True)
class Histogram:
    """A window's counts in the bins of a baseline: (k,) `counts`, and rows by why they are in none.

    `new` has the categories that are new, most frequent first; `outside` is all rows beyond the baseline.
    """

    counts: npt.NDArray[np.int64]
    below: int = 0
    above: int = 0
    unlisted: int = 0
    new: dict[str, int] = field(default_factory=dict)
    nulls: int = 0
    absent: int = 0
    withheld: int = 0

    @property
    def outside(self) -> int:
        return self.below + self.above + self.unlisted + sum(self.new.values())

    @property
    def known(self) -> int:
        """Rows with a value."""
        return int(self.counts.sum()) + self.outside

    @property
    def rows(self) -> int:
        return self.known + self.nulls + self.absent


def read_baseline(folder: Path) -> list[Baseline]:
    """The baseline of a local bundle, in its order."""
    rows = pq.read_table(folder / BASELINE_FILE).to_pylist()
    return [
        Baseline(
            *(row["side"], row["name"], row["type"], row["rows"], row["nulls"]),
            tuple(row["edges"] or ()),
            tuple(row["values"] or ()),
            tuple(row["counts"] or ()),
        )
        for row in rows
    ]


def tally(baseline: Baseline, values: Column) -> Tally:
    """Counts the values of one batch: text or None for a category, float64 with NaN for null otherwise."""
    if baseline.is_category:
        return _categories(baseline, values)
    numbers = np.asarray(values, dtype=np.float64)
    known = numbers[np.isfinite(numbers)]
    found: Tally = Counter()
    found[NULL, ""] = len(numbers) - len(known)
    if not baseline.edges:  # the baseline has no value: any is new
        found[ABOVE, ""] = len(known)
        return +found
    edges = np.array(baseline.edges)
    found[BELOW, ""], found[ABOVE, ""] = int((known < edges[0]).sum()), int((known > edges[-1]).sum())
    inside = known[(known >= edges[0]) & (known <= edges[-1])]
    # The baseline's own rule: edges[i] <= x < edges[i + 1], the last bin closed.
    places = np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, max(len(edges) - 2, 0))
    for place, count in enumerate(np.bincount(places)):
        found["bin", str(place)] = int(count)
    return +found


def _categories(baseline: Baseline, values: Iterable[object]) -> Tally:
    places = {value: str(place) for place, value in enumerate(baseline.values)}
    found: Tally = Counter()
    new: Counter[str] = Counter()
    for value, count in Counter(value if isinstance(value, str) else None for value in values).items():
        if value is None:
            found[NULL, ""] += count
        elif (place := places.get(value)) is not None:
            found["bin", place] += count
        else:
            new[value[:_SHOWN_CHARACTERS]] += count
    # Bounded, whatever callers send: the rest of a batch's new ones is counted without their names.
    for value, count in new.most_common(_MOST_NEW):
        found[NEW, value] += count
    found[MORE_NEW, ""] = new.total() - sum(count for (what, _), count in found.items() if what == NEW)
    return +found


def histogram(baseline: Baseline, tallied: Mapping[tuple[str, str], int]) -> Histogram:
    """What the tallies of all batches add up to."""
    found = Histogram(np.zeros(len(baseline.counts), dtype=np.int64))
    for (what, name), count in tallied.items():
        match what:
            case "bin":
                found.counts[int(name)] += count
            case "new":
                found.new[name] = found.new.get(name, 0) + count
            case "more_new":
                found.unlisted += count
            case "below" | "above" | "absent" | "withheld":
                setattr(found, what, getattr(found, what) + count)
            case _:
                found.nulls += count
    found.new = dict(sorted(found.new.items(), key=lambda item: (-item[1], item[0])))
    return found

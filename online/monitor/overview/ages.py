"""How old precomputed answers were when they were given, over time and by model: chart and table. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from online.monitor import charts
from online.monitor.charts import SERIES_COLOURS
from online.monitor.overview.changes import Changes
from online.monitor.requestlog.counts import BINS, Counts, cells, cells_of
from online.monitor.requestlog.spans import Within
from online.monitor.requestlog.sql import AGE, bin_s
from online.monitor.tables import Cell, Column, Kind, Table
from online.monitor.windows import Window
from schemas.http import Source

NO_HITS = "No precomputed answer in this time range has an age in the log."
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Age:
    """Of the precomputed answers of a step: half are younger than `median_h`, 1 % are older than `oldest_h`."""

    median_h: float
    oldest_h: float


# By model, one a step of the window; None where nothing precomputed was answered.
Ages = Mapping[str, Sequence[Age | None]]


def read_ages(counts_by_model: Mapping[str, Counts], window: Window, model: str) -> Ages:
    """Of as many models as the chart has colours, the chosen one first."""
    names = sorted(counts_by_model, key=lambda name: (name != model, name))[:SERIES_COLOURS]
    return {name: [step.once(_age) for step in counts_by_model[name].steps(*window.minutes)] for name in names}


def _age(step: Within) -> Age | None:
    found, first = step.once(cells), cells_of(Source.PRECOMPUTED.value, AGE).start
    low, high = np.searchsorted(found.cell, [first, first + BINS])
    if low == high:
        return None
    reached = np.cumsum(found.answers[low:high])
    median, oldest = (
        bin_s(int(found.cell[low:high][np.searchsorted(reached, share * reached[-1])]) - first) / _HOUR_S
        for share in (0.5, 0.99)
    )
    return Age(median, oldest)


def ages_chart(ages: Ages, window: Window, changes: Changes) -> charts.Chart:
    series: dict[str, tuple[str, Sequence[float | None]]] = {
        f"age-{name}": (name, [one.median_h if one else None for one in steps]) for name, steps in ages.items()
    }
    return charts.count_lines(
        "ages", "Age of precomputed answers", series, window.tick_labels(), "age_over_time", changes.steps
    )


def ages_table(ages: Ages, window: Window, changes: Changes) -> Table:
    columns = [Column("from", "From (UTC)", Kind.TIME)]
    for name in ages:
        columns += [
            Column(f"age_{name}", f"{name}, hours", Kind.NUMBER),
            Column(f"oldest_{name}", f"{name}, oldest", Kind.NUMBER),
        ]
    columns += changes.column
    rows: list[Sequence[Cell]] = []
    for step in range(window.steps):
        found = [steps[step] for steps in ages.values()]
        both = [(one.median_h, one.oldest_h) if one else (None, None) for one in found]
        rows.append([window.step_start(step), *(cell for pair in both for cell in pair), *changes.cell(step)])
    has_any = any(one for steps in ages.values() for one in steps)
    note = (
        "Of every precomputed answer in the log, by how long before it was computed: the median, and what 1 % are"
        " older than. A generation ages until the next is activated; a delta refresh makes some answers younger."
        " In bins 1 % wide. Changes are those of the chosen model."
    )
    return Table(
        "age_over_time", "Age of precomputed answers over time", columns, rows if has_any else [], NO_HITS, note
    )

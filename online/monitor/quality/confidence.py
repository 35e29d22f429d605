"""Confidence over time, of hits and of the tail: quantiles of what the request log says of answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from online.monitor import charts
from online.monitor.requestlog.counts import Counts, cells, cells_of
from online.monitor.requestlog.spans import Within
from online.monitor.requestlog.sql import CONFIDENCE, CONFIDENCE_BINS
from online.monitor.tables import Cell, Column, Kind, Table
from online.monitor.windows import Window
from schemas.drift import HITS, POPULATIONS, TAIL
from schemas.http import Source

SHARES = {"p10": 0.1, "p50": 0.5}
NAMES = {HITS: "Hits", TAIL: "Tail"}
_SOURCES = {HITS: (Source.PRECOMPUTED.value, Source.CACHED.value), TAIL: (Source.LIVE.value,)}
ALL_STEPS = -1


@dataclass(frozen=True, slots=True)
class Confidence:
    """Of `answers` with a confidence: mean and quantiles, 0 to 1."""

    answers: int
    mean: float
    quantiles: Mapping[str, float]


Figures = Mapping[tuple[str, int], Confidence]


def read_confidence(counts: Counts, window: Window) -> Figures:
    """By population and step; `ALL_STEPS` for the whole window."""
    steps = counts.steps(*window.minutes)
    figures: dict[tuple[str, int], Confidence] = {}
    for number, step in enumerate(steps):
        figures |= {(population, number): found for population, found in step.once(_of_step).items()}
    for population in POPULATIONS:
        every = np.sum([step.once(_bins)[population] for step in steps], axis=0)
        if every.any():
            figures[population, ALL_STEPS] = _of_bins(every)
    return figures


def _of_step(step: Within) -> dict[str, Confidence]:
    """By population, of those that have any."""
    return {population: _of_bins(bins) for population, bins in step.once(_bins).items() if bins.any()}


def _bins(step: Within) -> dict[str, npt.NDArray[np.int64]]:
    """(bins,) answers by population."""
    found = step.once(cells)
    bins = {population: np.zeros(CONFIDENCE_BINS, np.int64) for population in _SOURCES}
    for population, sources in _SOURCES.items():
        for source in sources:
            first = cells_of(source, CONFIDENCE).start
            low, high = np.searchsorted(found.cell, [first, first + CONFIDENCE_BINS])
            bins[population][found.cell[low:high] - first] += found.answers[low:high]
    return bins


def _of_bins(counts: npt.NDArray[np.int64]) -> Confidence:
    """(k,) answers in bins of equal width from 0 to 1; a bin stands for its middle."""
    middles = (np.arange(len(counts)) + 0.5) / len(counts)
    reached, total = np.cumsum(counts), int(counts.sum())
    quantiles = {name: float(middles[np.searchsorted(reached, share * total)]) for name, share in SHARES.items()}
    return Confidence(total, float((counts * middles).sum() / total), quantiles)


def confidence_chart(figures: Figures, window: Window) -> charts.Chart:
    series: dict[str, tuple[str, Sequence[float | None]]] = {
        f"{population}-{name}": (f"{NAMES[population]} {name}", _line(figures, window, population, name))
        for population in POPULATIONS
        for name in SHARES
    }
    ticks = window.tick_labels()
    return charts.share_lines("confidence", "Confidence of hits and of the tail", series, ticks, "confidence")


def _line(figures: Figures, window: Window, population: str, name: str) -> list[float | None]:
    found = (figures.get((population, step)) for step in range(window.steps))
    return [one.quantiles[name] if one else None for one in found]


def confidence_table(figures: Figures, window: Window) -> Table:
    """A row a step, as the chart has them."""
    columns = [Column("from", "From (UTC)", Kind.TIME)]
    for population in POPULATIONS:
        said = NAMES[population]
        columns += [Column(f"{population}_{name}", f"{said} {name}", Kind.SHARE) for name in SHARES]
        columns += [
            Column(f"{population}_mean", f"{said} mean", Kind.SHARE),
            Column(f"{population}_answers", f"{said} answers", Kind.COUNT),
        ]
    rows: list[Sequence[Cell]] = [
        [window.step_start(step), *(cell for one in POPULATIONS for cell in _cells(figures.get((one, step))))]
        for step in range(window.steps)
    ]
    note = (
        "Of every answer in the request log that has a confidence, by the time of the answer. Hits: precomputed"
        " and cached; tail: live. p10: a tenth of the answers are less confident. In bins of one hundredth, by"
        " their middle."
    )
    empty = "No answers with a confidence in this time range."
    return Table("confidence", "Confidence over time", columns, rows if figures else [], empty, note)


def _cells(found: Confidence | None) -> list[Cell]:
    if found is None:
        return [None] * (len(SHARES) + 2)
    return [*(found.quantiles[name] for name in SHARES), found.mean, found.answers]

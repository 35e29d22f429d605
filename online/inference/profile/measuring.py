"""Measuring T(b): which batch sizes, in which order, how often. No torch: the model is a callable."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil

LEAST_SIZES = 8
# Below it, the clock and the interpreter are a visible part of what is measured.
_LEAST_SAMPLE_S = 0.002
_MOST_REPEATS = 200

Run = Callable[[], object]


def sizes_to_measure(max_rows: int, least: int = LEAST_SIZES) -> list[int]:
    """1, 2, 4 … `max_rows`, and where these are fewer than `least`, sizes halfway in the widest gaps."""
    sizes = sorted({min(1 << power, max_rows) for power in range(max_rows.bit_length() + 1)})
    while len(sizes) < min(least, max_rows):
        gap, low = max((high - low, low) for low, high in pairwise(sizes))
        sizes = sorted([*sizes, low + gap // 2])
    return sizes


def measure(runs: Mapping[int, Run], rounds: int) -> dict[int, float]:
    """Median milliseconds of each run, by its batch size.

    Each round takes one sample of every size, every other round from the largest down, so that a slow second of
    the machine or a slow drift does not fall on one size alone. A first run of each is not counted.
    """
    repeats = {rows: _repeats(run) for rows, run in runs.items()}
    samples: dict[int, list[float]] = {rows: [] for rows in runs}
    for turn in range(rounds):
        for rows in _order(list(runs), turn):
            samples[rows].append(_mean_ms(runs[rows], repeats[rows]))
    return {rows: statistics.median(taken) for rows, taken in samples.items()}


def _order(sizes: Sequence[int], turn: int) -> Sequence[int]:
    return sizes if turn % 2 == 0 else sizes[::-1]


def _repeats(run: Run) -> int:
    """How often a sample runs the batch: once, or more where one would be too short to time."""
    run()
    return max(1, min(_MOST_REPEATS, ceil(_LEAST_SAMPLE_S / (_mean_ms(run, 1) / 1e3))))


def _mean_ms(run: Run, repeats: int) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - began) * 1e3 / repeats

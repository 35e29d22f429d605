"""Which differences between a window and the baseline are worth an alarm. Pure; the statistics are
`statistics.py`'s.

Each feature and output of each population is judged by itself, and gets a level and the kinds of what was
found:

- `drift`: PSI or Jensen-Shannon over its threshold.
- `nulls`: the share of nulls (absent ones with them) by the same test, of two bins.
- `outside`: more rows beyond the baseline's range than chance gives, and more than a share that matters.
- `new_category`: categories that the baseline did not have; an alarm where `outside` would be one, else a warning.
- `missing`: no record has the feature at all.
- `too_few_rows`: nothing can be said.

A window of whole weeks is compared with the baseline alone. One that is shorter, such as a Saturday, differs
from a baseline of whole weeks wherever weekdays differ. So what was found is looked for in the same hours of
the four weeks before as well: where those differ from the baseline in the same way, it is a `standing`
difference, and a warning. Hits are treated so whatever the window, since hot entities are chosen for being
popular, and are not the population that the model was trained on from the first day.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from batch_scoring.drift.histograms import Baseline, Histogram
from batch_scoring.drift.statistics import (
    Distance,
    Float64Array,
    chance_of_outside,
    distance,
    join_neighbours,
    join_rare,
    joined,
    level_of_each,
)
from schemas.drift import ALARM, FINE, HITS, INPUT, LEVELS, POPULATIONS, TOO_FEW, WARNING

# PSI and Jensen-Shannon of the values, the nulls, and what lies outside.
_TESTS_OF_EACH = 4
_SHOWN_NEW = 5
_SOME_REPEAT = 1.05


@dataclass(frozen=True, slots=True)
class Rules:
    """
    Attributes:
        family_error: the chance of any false alarm in all of `windows` windows, of all features and populations.
        windows: by default a year of daily ones.
        tolerated_psi: a true PSI up to this is no finding, however many rows show it.
        least_rows: effective rows below which nothing is said.
        least_outside_share: of rows outside the baseline that an alarm needs.
    """

    family_error: float = 0.05
    windows: int = 365
    tolerated_psi: float = 0.1
    least_rows: int = 100
    least_outside_share: float = 0.01

    def level(self, columns: int) -> float:
        """Of one test, where so many features and outputs are judged in each window."""
        return level_of_each(self.family_error, columns * len(POPULATIONS) * _TESTS_OF_EACH * self.windows)


@dataclass(frozen=True, slots=True)
class Sample:
    """A population of a window. `repeats`: rows for each effective one, at least 1.

    `histograms` by (side, name); `records`: rows that have inputs.
    """

    rows: int = 0
    records: int = 0
    repeats: float = 1.0
    histograms: Mapping[tuple[str, str], Histogram] = field(default_factory=dict)


@dataclass(slots=True)
class Finding:
    """What was found of one feature or output. `distance` is None where there was nothing to compare."""

    population: str
    baseline: Baseline
    histogram: Histogram
    effective_rows: float
    distance: Distance | None = None
    level: str = FINE
    kinds: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, level: str, kind: str, reason: str) -> None:
        self.kinds.append(kind)
        self.reasons.append(reason)
        self.level = min(self.level, level, key=LEVELS.index)


def judge(
    baselines: list[Baseline],
    window: Mapping[str, Sample],
    before: Mapping[str, Sample],
    is_whole_weeks: bool,
    rules: Rules,
) -> list[Finding]:
    """A finding for each population and baseline, the worst first.

    Args:
        before: the same hours of the weeks before, by population; may be empty.
    """
    level = rules.level(len(baselines))
    found = []
    for population in POPULATIONS:
        sample, earlier = window.get(population, Sample()), before.get(population, Sample())
        may_stand = population == HITS or not is_whole_weeks
        for baseline in baselines:
            judged = _Judge(baseline, sample, earlier if may_stand else Sample(), rules, level)
            found.append(judged.finding(population))
    return sorted(found, key=_order)


def _order(finding: Finding) -> tuple[object, ...]:
    apart = finding.distance
    excess = apart.psi / apart.psi_threshold if apart is not None and apart.freedom else 0.0
    return LEVELS.index(finding.level), -excess, finding.population, finding.baseline.key


class _Judge:
    """One feature or output of one population."""

    def __init__(self, baseline: Baseline, sample: Sample, earlier: Sample, rules: Rules, level: float) -> None:
        self._baseline, self._sample, self._rules, self._level = baseline, sample, rules, level
        empty = Histogram(np.zeros(len(baseline.counts), dtype=np.int64))
        self._now = sample.histograms.get(baseline.key, empty)
        self._then = earlier.histograms.get(baseline.key, empty)
        self._repeats, self._repeats_then = sample.repeats, earlier.repeats
        self._has_then = self._then.rows / self._repeats_then >= rules.least_rows

    def finding(self, population: str) -> Finding:
        now, rows = self._now, self._now.rows / self._repeats
        self._found = Finding(population, self._baseline, now, rows)
        if self._is_withheld():
            return self._found
        if rows < self._rules.least_rows:
            self._say_too_few()
            return self._found
        if now.absent == now.rows:
            self._found.add(ALARM, "missing", f"none of {now.rows:,} records has it")
            return self._found
        self._look_at_nulls()
        self._look_outside()
        self._look_at_values()
        return self._found

    def _is_withheld(self) -> bool:
        if self._now.withheld and not self._now.rows:
            self._found.reasons.append("kept out of the log by API_LOG_NEVER")
            return True
        return False

    def _say_too_few(self) -> None:
        now = self._now
        if self._baseline.side == INPUT and self._sample.rows and not self._sample.records:
            why = f"none of {self._sample.rows:,} sampled rows has inputs"
        else:
            why = f"{now.rows:,} sampled rows"
            if self._repeats > _SOME_REPEAT:
                why += f", as good as {self._found.effective_rows:.0f} different ones"
            why += f"; {self._rules.least_rows} are needed"
        self._found.add(TOO_FEW, "too_few_rows", f"too few rows: {why}")
        if now.new:
            self._found.add(WARNING, "new_category", f"not in the baseline: {_named(now)}")

    def _look_at_nulls(self) -> None:
        baseline, now, then = self._baseline, self._now, self._then
        before = np.array([baseline.nulls, baseline.rows - baseline.nulls], dtype=np.float64)
        apart = self._distance(before, _null_bins(now) / self._repeats)
        if apart is None or not apart.is_over:
            return
        standing = self._is_standing(_null_bins(then) / self._repeats_then, _null_bins(now) / self._repeats)
        share, usual = (now.nulls + now.absent) / now.rows, baseline.nulls / baseline.rows
        self._alarm("nulls", f"{share:.1%} of its rows are null, {usual:.1%} in the baseline", standing)

    def _look_outside(self) -> None:
        now, rules, baseline = self._now, self._rules, self._baseline
        known = now.known / self._repeats
        if baseline.unlisted or not now.outside:
            return  # a baseline that does not list all its values has none that is new
        rare = 1.0 + sum(count == 1 for count in baseline.counts) if baseline.is_category else 2.0
        chance = chance_of_outside(now.outside / self._repeats, known, rare, baseline.rows - baseline.nulls)
        share = now.outside / now.known
        is_alarm = chance < self._level and share >= rules.least_outside_share
        standing = is_alarm and self._is_standing(
            _outside_bins(self._then) / self._repeats_then, _outside_bins(now) / self._repeats
        )
        if baseline.is_category:
            words = f"not in the baseline: {_named(now)}; {share:.2%} of its rows"
            if is_alarm:
                self._alarm("new_category", words, standing)
            else:
                self._found.add(WARNING, "new_category", words)
        elif is_alarm:
            edges = baseline.edges
            where = f"outside {edges[0]:g} to {edges[-1]:g}" if edges else "where there were nulls only"
            self._alarm("outside", f"{share:.2%} of its rows lie {where}; the baseline has none there", standing)

    def _look_at_values(self) -> None:
        before, now = _bins(self._baseline, None), _bins(self._baseline, self._now) / self._repeats
        apart = self._found.distance = self._joined_distance(before, now)
        if apart is None or not apart.is_over:
            return
        words = f"PSI {apart.psi:.3f}, at most {apart.psi_threshold:.3f} by chance"
        words += f"; Jensen-Shannon {apart.jensen_shannon:.4f}, at most {apart.jensen_shannon_threshold:.4f}"
        standing = False
        if self._has_then:
            then = _bins(self._baseline, self._then) / self._repeats_then
            since = self._joined_distance(then, now)
            standing = since is not None and not since.is_over
        self._alarm("drift", words, standing)

    def _alarm(self, kind: str, words: str, standing: bool) -> None:
        if standing:
            self._found.kinds.append("standing")
            words += "; as in the same hours of the weeks before"
        self._found.add(WARNING if standing else ALARM, kind, words)

    def _is_standing(self, then: Float64Array, now: Float64Array) -> bool:
        apart = self._distance(then, now) if self._has_then else None
        return apart is not None and not apart.is_over

    def _joined_distance(self, baseline: Float64Array, window: Float64Array) -> Distance | None:
        if baseline.sum() < 1 or window.sum() < 1:
            return None
        join = join_rare if self._baseline.is_category else join_neighbours
        groups = join(baseline, float(window.sum()))
        return self._distance(joined(baseline, groups), joined(window, groups))

    def _distance(self, baseline: Float64Array, window: Float64Array) -> Distance | None:
        if baseline.sum() < 1 or window.sum() < 1:
            return None
        return distance(baseline, window, self._rules.tolerated_psi, self._level)


def _bins(baseline: Baseline, found: Histogram | None) -> Float64Array:
    """(k,) counts of the values, of the baseline itself where there is no histogram.

    Numbers out of range go into the bins at the ends. New categories have a test of their own, unless the baseline
    does not list all values: then there is a bin (k + 1) of all others.
    """
    counts = np.array(baseline.counts if found is None else found.counts, dtype=np.float64)
    if baseline.is_category:
        if not baseline.unlisted:
            return counts
        return np.append(counts, baseline.unlisted if found is None else found.outside)
    if found is not None and len(counts):
        counts[0] += found.below
        counts[-1] += found.above
    return counts


def _null_bins(found: Histogram) -> Float64Array:
    return np.array([found.nulls + found.absent, found.known], dtype=np.float64)


def _outside_bins(found: Histogram) -> Float64Array:
    return np.array([found.outside, found.known - found.outside], dtype=np.float64)


def _named(found: Histogram) -> str:
    shown = [f"{value!r} ({count:,})" for value, count in list(found.new.items())[:_SHOWN_NEW]]
    more = len(found.new) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "") or f"{found.outside:,} rows"

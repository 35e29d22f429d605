"""How far two histograms are apart, and how far they may be apart by chance. Pure functions over counts.

Why the thresholds depend on the number of rows. With shares p (baseline, m rows) and q (window, n rows) in k
bins, the Population Stability Index is PSI = Σ (q - p) ln(q / p), and the Jensen-Shannon divergence JS is the
mean of the Kullback-Leibler divergences of p and q from (p + q) / 2. To second order in e = q - p both are the
same sum:

    PSI ≈ Σ e² / p          JS ≈ Σ e² / (8 p)   (nats)

Without a shift, with 1/h = 1/n + 1/m, h Σ e² / p is Pearson's statistic of two samples, chi-square with k - 1
degrees of freedom; so h·PSI and 8h·JS are too. A fixed limit, such as the usual 0.1 or 0.25, is therefore
passed by chance when rows are few. When rows are many every trifle is significant, so what is tested is not "no
shift" but "a shift of at most d", d = 0.1 by default, the value up to which a PSI by custom counts as no
change. At a true PSI of d the statistic is noncentral chi-square with noncentrality h·d, and

    threshold of PSI = isf(a; k - 1, h·d) / h          threshold of JS = isf(a; k - 1, h·d) / (8 h)

which is about chi-square's for small h, and falls to d, or d / 8, as h grows. `a` is the level of one test:
`level_of_each` shares the chance of any false alarm among all tests of all windows (Bonferroni; it holds
whatever the tests have to do with each other, as overlapping windows have).

Rows that repeat each other tell less than their number: requests of one hot entity have one set of features. Of
groups of w equal rows the effective number is (Σw)² / Σw² (Kish), by which counts are scaled down here.

Sources: chi-square limits of such divergences: Salicrú, Morales, Menéndez, Pardo, J. Multivariate Analysis 51
(1994); of the PSI: Yurdakul, Naranjo, J. Risk Model Validation 14 (2020); a tolerated shift tested by the
noncentral chi-square: Potgieter and others, arXiv 2307.11878; effective rows: Kish, Survey Sampling (1965),
8.2.
"""

from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import jensenshannon  # type: ignore[import-untyped]  # no stubs
from scipy.stats import betabinom, ncx2  # type: ignore[import-untyped]  # no stubs

Float64Array = npt.NDArray[np.float64]

# A bin that would hold fewer rows by the baseline's shares is joined with others (Cochran's rule): below it the
# chi-square limit is no guide.
LEAST_EXPECTED_ROWS = 5.0
# Added to every bin of both sides, so that the logarithm of an empty one is finite (Jeffreys' prior).
_PRIOR_ROWS = 0.5
_JS_PER_PSI = 1 / 8


@dataclass(frozen=True, slots=True)
class Distance:
    """How far apart, and what may be by chance. `jensen_shannon` in bits, so at most 1; `freedom` = bins - 1."""

    psi: float
    psi_threshold: float
    jensen_shannon: float
    jensen_shannon_threshold: float
    freedom: int

    @property
    def is_over(self) -> bool:
        return self.freedom > 0 and (
            self.psi > self.psi_threshold or self.jensen_shannon > self.jensen_shannon_threshold
        )


def level_of_each(family_error: float, tests: int) -> float:
    """The level of each of so many tests, for any of which to fail by chance at most with `family_error`."""
    return family_error / max(1, tests)


def effective_rows(rows: float, squares: float) -> float:
    """Kish's number: of groups of w equal rows, `rows` is Σw and `squares` Σw²."""
    return rows * rows / squares if squares else 0.0


def distance(baseline: Float64Array, window: Float64Array, tolerated_psi: float, level: float) -> Distance:
    """Compares counts, (k,) each and effective; both sides with a row at least, bins joined already."""
    p, q = _shares(baseline), _shares(window)
    rows = 1 / (1 / baseline.sum() + 1 / window.sum())
    freedom = len(p) - 1
    psi = float(np.sum((q - p) * np.log(q / p)))
    bits = float(jensenshannon(p, q, base=2)) ** 2 if freedom else 0.0
    limit = float(ncx2.isf(level, freedom, rows * tolerated_psi)) / rows if freedom else 0.0
    return Distance(psi, limit, bits, limit * _JS_PER_PSI / log(2), freedom)


def _shares(counts: Float64Array) -> Float64Array:
    raised = counts + _PRIOR_ROWS
    shares: Float64Array = raised / raised.sum()
    return shares


def join_neighbours(baseline: Float64Array, window_rows: float) -> npt.NDArray[np.int64]:
    """For bins in order: (k,) the joined bin that each belongs to, so that each holds enough expected rows.

    Chosen by the baseline alone: bins that were chosen by the window's own counts would bend the statistic.
    """
    expected = _expected(baseline, window_rows)
    groups = np.zeros(len(baseline), dtype=np.int64)
    group, held = 0, 0.0
    for place, rows in enumerate(expected):
        if held >= LEAST_EXPECTED_ROWS:
            group, held = group + 1, 0.0
        groups[place] = group
        held += float(rows)
    if held < LEAST_EXPECTED_ROWS and group > 0:  # the last one is short: it joins the one before
        groups[groups == group] = group - 1
    return groups


def join_rare(baseline: Float64Array, window_rows: float) -> npt.NDArray[np.int64]:
    """As `join_neighbours` for bins without an order: the rarest become one, common ones stay themselves."""
    expected = _expected(baseline, window_rows)
    by_size = np.argsort(-expected, kind="stable")
    common = int((expected >= LEAST_EXPECTED_ROWS).sum())
    while 0 < common < len(expected) and expected[by_size[common:]].sum() < LEAST_EXPECTED_ROWS:
        common -= 1
    groups = np.full(len(baseline), common, dtype=np.int64)
    groups[by_size[:common]] = np.arange(common)
    return groups


def _expected(baseline: Float64Array, window_rows: float) -> Float64Array:
    """Rows of the smaller side in each bin: the baseline too may be small."""
    total = float(baseline.sum())
    expected: Float64Array = baseline * (min(window_rows, total) / total if total else 0.0)
    return expected


def joined(counts: Float64Array, groups: npt.NDArray[np.int64]) -> Float64Array:
    """Counts of the joined bins."""
    return np.bincount(groups, weights=counts, minlength=int(groups.max(initial=-1)) + 1).astype(np.float64)


def chance_of_outside(outside: float, rows: float, rare: float, baseline_rows: float) -> float:
    """How likely it is, without a shift, that so many of n rows lie where no row of the baseline did.

    The share of a distribution that m rows did not touch is Beta(r, m - r + 1): for the range of numbers r = 2
    (beyond the least and the greatest; ties make it less), for categories r = 1 + those seen once (Good and
    Turing's estimate, rounded up). Rows there are then beta-binomial. `outside` and `rows` are effective, and
    rounded down.
    """
    count, total = int(outside), int(rows)
    if count == 0:
        return 1.0
    shape = (total, rare, max(1.0, baseline_rows - rare + 1))
    # SciPy adds up the terms of one side, which may be a million: so the shorter one.
    if 2 * count > total:
        return float(betabinom.sf(count - 1, *shape))
    return max(0.0, 1.0 - float(betabinom.cdf(count - 1, *shape)))

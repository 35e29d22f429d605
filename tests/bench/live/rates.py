"""Load below what the device can give, beside the ideal device on the same arrivals."""

import logging
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.bench.live.asking import Requests, Server
from tests.bench.live.measure import Run, run_load
from tests.bench.live.plan import Plan
from tests.bench.live.usage import CpuMeter
from tests.bench.load.arrivals import Phase
from tests.bench.load.summary import Latencies

log = logging.getLogger(__name__)

Counts = Callable[[], dict[str, float]]
PRODUCT = "hotset"


@dataclass(frozen=True)
class RateResult:
    """One run at one rate. `counts` is what the device counted meanwhile; empty for a server of others."""

    server: str
    rate_per_s: int
    measured: Latencies
    ideal: Latencies
    errors: dict[str, int]
    wrong: int
    late_p99_ms: float
    cpu_shares: dict[str, float]
    counts: dict[str, float]

    @property
    def mean_over_ideal(self) -> float:
        return self.measured.mean_ms / self.ideal.mean_ms

    @property
    def p99_over_ideal(self) -> float:
        return self.measured.p99_ms / self.ideal.p99_ms

    @property
    def batch_rows(self) -> float:
        """Mean rows of a batch; NaN where nobody counted."""
        batches = self.counts.get("batches", 0.0)
        return self.counts["rows"] / batches if batches else float("nan")


def measure_rate(
    name: str, server: Server, requests: Requests, plan: Plan, rate_per_s: int, seed: int, counts: Counts = dict
) -> RateResult:
    """Figures are of what was due after the warm-up; wrong answers of all."""
    log.info("%s: %d requests a second for %g s", name, rate_per_s, plan.warm_s + plan.measured_s)
    before = counts()
    with CpuMeter(None if name == PRODUCT else name) as cpu:
        run = run_load(server, requests, [Phase(rate_per_s, plan.warm_s + plan.measured_s)], seed)
    counted = {key: value - before.get(key, 0.0) for key, value in counts().items()}
    result = _result(name, rate_per_s, run, plan.warm_s, cpu.shares, counted)
    log.info(
        "%s: mean %.1f ms, %.3f of ideal; p99 %.1f ms, %.3f of ideal; sent late by %.2f ms at p99",
        *(name, result.measured.mean_ms, result.mean_over_ideal),
        *(result.measured.p99_ms, result.p99_over_ideal, result.late_p99_ms),
    )
    return result


def medians(results: Sequence[RateResult]) -> list[RateResult]:
    """Of each server and rate the run whose mean over ideal is the median; of two in the middle, the higher."""
    groups: dict[tuple[str, int], list[RateResult]] = {}
    for result in results:
        groups.setdefault((result.server, result.rate_per_s), []).append(result)
    return [sorted(group, key=lambda one: one.mean_over_ideal)[len(group) // 2] for group in groups.values()]


def median_ratios(results: Sequence[RateResult], rate_per_s: int) -> tuple[float, float]:
    """Medians over the runs at a rate, of mean and of p99 over ideal; NaN where there is no run."""
    runs = [result for result in results if result.rate_per_s == rate_per_s]
    if not runs:
        return float("nan"), float("nan")
    means = statistics.median(run.mean_over_ideal for run in runs)
    return means, statistics.median(run.p99_over_ideal for run in runs)


def _result(
    name: str, rate_per_s: int, run: Run, warm_s: float, cpu_shares: dict[str, float], counts: dict[str, float]
) -> RateResult:
    return RateResult(
        name,
        rate_per_s,
        run.latencies(warm_s),
        run.ideal(warm_s),
        run.errors(warm_s),
        run.wrong,
        run.late_p99_ms,
        {**cpu_shares, "generator": run.generator_cpu_share},
        counts,
    )

"""The results as tables for people."""

import sys
from collections.abc import Sequence
from math import isnan

from rich.console import Console
from rich.table import Table

from tests.bench.live.cpu_model import CpuResult
from tests.bench.live.overload import DEADLINE_MS, RATE_PER_S, OverloadResult
from tests.bench.live.rates import RateResult, medians
from tests.bench.live.results import Results

_HEAD = (
    "server",
    "req/s",
    "mean",
    "× ideal",
    "p50",
    "p99",
    "× ideal",
    "errors",
    "batch",
    "late p99",
    "CPU, % of a core",
)


def show(results: Results) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 150)
    if runs := [*medians(results.product), *medians(results.peers)]:
        console.print(_rates(runs))
    if results.overload is not None:
        console.print(
            _facts(f"{RATE_PER_S}/s offered with a deadline of {DEADLINE_MS} ms", _overload(results.overload))
        )
    if results.cpu is not None:
        console.print(_facts("A model on the CPU, one thread", _cpu(results.cpu)))


def _rates(runs: Sequence[RateResult]) -> Table:
    table = Table(
        title="Open-loop Poisson load; times in ms, beside a device without overhead on the same arrivals",
        title_justify="left",
        title_style="bold",
    )
    for name in _HEAD:
        table.add_column(name, justify="left" if name in (_HEAD[0], _HEAD[-1]) else "right")
    for run in runs:
        table.add_row(
            run.server,
            str(run.rate_per_s),
            f"{run.measured.mean_ms:.1f}",
            f"{run.mean_over_ideal:.2f}",
            f"{run.measured.p50_ms:.1f}",
            f"{run.measured.p99_ms:.1f}",
            f"{run.p99_over_ideal:.2f}",
            str(sum(run.errors.values())),
            "" if isnan(run.batch_rows) else f"{run.batch_rows:.1f}",
            f"{run.late_p99_ms:.2f}",
            ", ".join(f"{part} {100 * share:.0f}" for part, share in run.cpu_shares.items() if share > 0.005),
        )
    return table


def _facts(title: str, facts: dict[str, str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def _overload(result: OverloadResult) -> dict[str, str]:
    codes = "; ".join(f"{code} {one.count:,}, {one.p99_ms:.1f} ms" for code, one in result.by_code.items())
    return {
        "answered in time, of what the device can give": f"{result.goodput_share:.3f}",
        "answers' p99": f"{result.good.p99_ms:.1f} ms",
        "refusals' p99": f"{result.refusals.p99_ms:.1f} ms",
        "refusals by code, with p99": codes,
        "unanswered": str(result.unanswered),
        "back to normal after": f"{result.recovery_s:.2f} s",
        "sent late, p99": f"{result.late_p99_ms:.2f} ms",
    }


def _cpu(result: CpuResult) -> dict[str, str]:
    bare = f"{result.bare_rows_per_s:,.0f} rows/s, {result.bare_batch_ms:.1f} ms a batch of 64"
    rows = f"{result.tier_batch_rows:.1f}"
    tier = f"{result.tier_rows_per_s:,.0f} rows/s, {result.tier_batch_ms:.1f} ms a batch of {rows}"
    return {
        "bare torch loop": bare,
        "tier, by its wire": tier,
        "tier over bare": f"{result.tier_over_bare:.3f}",
    }

"""Predicted and measured side by side."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.bench.planning.calibration import HEAVY, LIGHT
from tests.bench.planning.plan import MEAN_WITHIN, P99_WITHIN
from tests.bench.planning.results import Loaded, Results

# Share of all cores; what others do is then a visible part of every latency.
QUIET = 0.1

_HEAD = (
    "device", "of capacity", "req/s", "outside", "batch",
    "mean predicted", "measured", "off by", "on its arrivals",
    "p99 predicted", "measured", "off by", "on its arrivals", "stalls", "errors",
)  # fmt: skip
_NOTE = (
    "Predicted: the long run at the rate, simulated. Outside: of an answer, and for each row of its batch; and "
    f"what a batch takes over its profile: from loads at {LIGHT:.0%} and {HEAVY:.0%} and a burst, not judged. On "
    "its arrivals: off by, had the very arrivals been simulated, so without their chance. Stalls: batches that "
    "the emulated device overran; 3 → 0: measured again, once. "
)


def show(results: Results) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 170)
    if results.emulated:
        console.print(
            _loads("Emulated devices: predicted before the load and measured under it; ms", results.emulated)
        )
        console.print(_NOTE + _within(results.emulated))
    if results.cpu:
        console.print(_loads("A real model on the CPU, pinned, without a bound", results.cpu))
    if results.busy_before > QUIET:
        console.print(f"The machine was {results.busy_before:.0%} busy before anything began: not a measurement.")
    if results.triples:
        shares = [triple.mean_over_bound for triple in results.triples]
        console.print(
            f"Simulator beside Inoue's bound, {len(shares)} random devices and rates: mean {min(shares):.1%} to "
            f"{max(shares):.1%} of it, above it by more than its own interval {results.violations} times"
        )


def _loads(title: str, loads: Sequence[Loaded]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for place, name in enumerate(_HEAD):
        table.add_column(name, justify="right" if place else "left")
    for one in loads:
        table.add_row(
            one.device,
            f"{one.utilisation:.0%}",
            f"{one.rate_per_s:.0f}",
            f"{one.outside_ms:.1f} + {one.outside_row_ms:.2f} b; {one.device_ms:+.1f}",
            f"{one.measured_batch_rows:.1f}",
            f"{one.predicted_mean_ms:.1f}",
            f"{one.measured_mean_ms:.1f}",
            f"{one.mean_error:+.1%}",
            f"{one.arrivals_mean_error:+.1%}",
            f"{one.predicted_p99_ms:.1f}",
            f"{one.measured_p99_ms:.1f}",
            f"{one.p99_error:+.1%}",
            f"{one.arrivals_p99_error:+.1%}",
            str(one.overruns) if one.first is None else f"{one.first.overruns} → {one.overruns}",
            str(one.errors),
        )
    return table


def _within(loads: Sequence[Loaded]) -> str:
    judged = [one for one in loads if one.is_judged]
    means = sum(abs(one.mean_error) <= MEAN_WITHIN for one in judged)
    tails = sum(abs(one.p99_error) <= P99_WITHIN for one in judged)
    return (
        f"Mean within {MEAN_WITHIN:.0%} at {means} of {len(judged)} points, "
        f"p99 within {P99_WITHIN:.0%} at {tails}."
    )

"""The results as tables for people."""

import sys

from rich.console import Console
from rich.table import Table

from tests.bench.loading.plan import RATE_PER_S
from tests.bench.loading.results import Results
from tests.bench.loading.turns import Turns


def show(results: Results) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 130)
    if results.loads:
        console.print(_loads(results))
    console.print(
        f"Spark itself took {results.start_s:.1f} s to start, a small first load with its Python workers "
        f"{results.first_s:.1f} s; neither is in the ratios."
    )
    if results.lookups:
        console.print(_lookups(results.lookups))
        console.print(_ratio(results.lookups, results.throttle_per_s))
    if results.memory:
        console.print(_memory(results))
    if results.errors:
        console.print(f"[bold red]ERRORS: {results.errors} look-ups[/]")
    if results.wrong:
        console.print(f"[bold red]WRONG ANSWERS: {results.wrong}[/]")


def _loads(results: Results) -> Table:
    title = f"{results.loads[0].entities:,} entities from score files to verified, beside redis-cli --pipe"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("publish s", "verify s", "entities/s", "pipe s", "keys/s", "× pipe", "bytes an entity"):
        table.add_column(name, justify="right")
    for one in results.loads:
        table.add_row(
            f"{one.publish_s:.1f}",
            f"{one.verify_s:.1f}",
            f"{one.entities_per_s:,.0f}",
            f"{one.pipe_s:.1f}",
            f"{one.keys_per_s:,.0f}",
            f"{one.over_pipe:.2f}",
            f"{one.grown_bytes / one.entities:.1f}",
        )
    return table


def _lookups(found: Turns) -> Table:
    title = f"Look-ups at {RATE_PER_S}/s in {len(found.before)} turns, in ms"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("", "look-ups", "p50", "p99"):
        table.add_column(name, justify="right" if name else "left")
    for name, one in (("without a load", found.latency_before), ("during a load", found.latency_during)):
        table.add_row(name, f"{one.count:,}", f"{one.p50_ms:.2f}", f"{one.p99_ms:.2f}")
    return table


def _ratio(found: Turns, throttle_per_s: int) -> str:
    low, high = found.interval()
    return (
        f"p99 during over without: × {found.ratio:.2f}, 90 % of resampled turns {low:.2f} to {high:.2f};"
        f" the turns' own: × {found.median_ratio:.2f}, median."
        f" Told to load {throttle_per_s:,} entities/s; {found.loaded_per_s:,.0f} with verification."
        f" The server's longest command took {found.longest_ms:.2f} ms; sent late by {found.late_p99_ms:.2f}, p99."
    )


def _memory(results: Results) -> Table:
    table = Table(title="Peak memory in MB, by entities loaded", title_justify="left", title_style="bold")
    for name in ("entities", "publish: driver", "Python worker", "JVM", "verify", "publish s", "verify s"):
        table.add_column(name, justify="right")
    for one in results.memory:
        sizes = (one.driver_bytes, one.worker_bytes, one.jvm_bytes, one.verify_bytes)
        in_mb = (f"{size / 1e6:.0f}" for size in sizes)
        table.add_row(f"{one.entities:,}", *in_mb, f"{one.publish_s:.1f}", f"{one.verify_s:.1f}")
    return table

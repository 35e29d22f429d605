"""The results as tables for people."""

import sys
from collections.abc import Sequence
from math import isfinite

from rich.console import Console
from rich.table import Table

from tests.bench.hits.asking import BATCH_ENTITIES
from tests.bench.hits.contenders import BATCH, FEAST_NAME, FLOOR, OURS
from tests.bench.hits.measure import Turn
from tests.bench.hits.memory import Footprint
from tests.bench.hits.plan import CLOSED
from tests.bench.hits.results import Results
from tests.bench.hits.rounds import Round, median, median_ratio

_HEAD = ("load", "server", "answers/s", "× floor", "p50 ms", "× floor", "p99 ms", "× floor", "CPU µs", "errors")


def show(results: Results) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 130)
    if results.rounds or results.feast:
        console.print(_loads(results))
    if BATCH in {name for _, name in results.pairs()}:
        per_s = median(results.rounds["batch"], BATCH, lambda turn: turn.good_per_s) * BATCH_ENTITIES
        console.print(f"Batches of {BATCH_ENTITIES} different entities: {per_s:,.0f} entities/s")
    if results.without_feast:
        console.print(results.without_feast)
    if results.memory:
        console.print(_memory(results.memory))
    console.print(_verdict(results))


def _loads(results: Results) -> Table:
    table = Table(
        title="Hits; medians of the rounds, ratios those of each round. CPU of the server, Redis's apart",
        title_justify="left",
        title_style="bold",
    )
    for place, name in enumerate(_HEAD):
        table.add_column(name, justify="left" if place < 2 else "right")
    before = ""
    for part, name in results.pairs():
        rounds = results.rounds[part]
        table.add_row(part if part != before else "", *_row(name, rounds, is_closed=part.startswith(CLOSED)))
        before = part
    for part, turn in results.feast.items():
        table.add_row(part, *_row(FEAST_NAME, [{FEAST_NAME: turn}], is_closed=part.startswith(CLOSED)))
    return table


def _row(name: str, rounds: Sequence[Round], is_closed: bool) -> list[str]:
    def figure(read: str, with_ratio: bool) -> tuple[str, str]:
        def value(turn: Turn) -> float:
            return float(getattr(turn.latency, read) if read != "good_per_s" else turn.good_per_s)

        ratio = median_ratio(rounds, name, FLOOR, value) if with_ratio and name != FLOOR else float("nan")
        shown = median(rounds, name, value)
        return (f"{shown:,.0f}" if read == "good_per_s" else f"{shown:.2f}"), (
            f"{ratio:.2f}" if isfinite(ratio) else ""
        )

    cpu = f"{median(rounds, name, lambda turn: turn.cpu_us):.0f}"
    redis = median(rounds, name, lambda turn: turn.redis_cpu_us)
    errors = sum(sum(one[name].errors.values()) for one in rounds if name in one)
    return [
        name,
        *figure("good_per_s", with_ratio=is_closed),
        *figure("p50_ms", with_ratio=not is_closed),
        *figure("p99_ms", with_ratio=not is_closed),
        f"{cpu} + {redis:.0f}",
        f"{errors:,}" if errors else "0",
    ]


def _memory(footprints: Sequence[Footprint]) -> Table:
    table = Table(
        title="Memory, all of Redis's overhead counted; ids of 8 bytes", title_justify="left", title_style="bold"
    )
    for name in ("server", "output", "entities", "bytes an entity", "listpacks", "loaded/s"):
        table.add_column(name, justify="left" if name in ("server", "output") else "right")
    for one in footprints:
        table.add_row(
            one.server,
            one.output,
            f"{one.entities:,}",
            f"{one.bytes_per_entity:.1f}",
            f"{100 * one.listpack_share:.0f} %",
            f"{one.entities / one.load_s:,.0f}",
        )
    return table


def _verdict(results: Results) -> str:
    answers = sum(turn.answers for turn in results.turns)
    crossovers = sum(turn.crossovers for turn in results.turns)
    errors, others = results.errors(OURS), results.errors({turn.contender for turn in results.turns} - set(OURS))
    told = [
        f"{answers:,} requests, each answer checked: {crossovers} of another entity, {results.wrong} wrong in all."
    ]
    if results.counted is not None:
        told.append(f"Requests of open loops were sent late by up to {results.late_p99_ms:.2f} ms at p99.")
        told.append(
            f"Missing in the product's log and metrics: {results.uncounted:,.0f} answers. "
            f"L1, where on, answered {100 * results.counted.l1_hit_share:.0f} %."
        )
    if others:
        told.append(f"Errors of the others: {others}")
    if errors:
        told.append(f"[bold red]ERRORS: {errors}[/]")
    if results.wrong:
        told.append("[bold red]THERE WERE WRONG ANSWERS; the log above shows some[/]")
    return "\n".join(told)

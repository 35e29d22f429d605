"""The results as a table for people."""

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

_COLUMNS = ("choice", "lru", "lfu", "wtinylfu", "sieve", "last_window", "past_top", "best_split_hindsight")
_COLUMNS += ("static_oracle", "belady")
# What the choice is held against, and by how much of a hit rate it may be lower.
RIVALS = ("lru", "lfu", "wtinylfu", "last_window")
MARGIN = 0.005
OF_HINDSIGHT = 0.97


def show(found: Mapping[str, Mapping[str, Any]], rows: int, speed_s: float | None) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 150)
    table = Table(title="Hit rates in percent, 5 % of the entities held by each", title_justify="left")
    for name in ("trace", "slots", *(column.replace("_", " ") for column in _COLUMNS), "pays"):
        table.add_column(name, justify="left" if name == "trace" else "right")
    for name, one in found.items():
        rates = [f"{100 * one[column]:.1f}" for column in _COLUMNS]
        table.add_row(name, f"{one['slots']:,}", *rates, "no" if one["declined"] else "yes")
    console.print(table)
    for line in lost(found):
        console.print(f"[bold red]LOST: {line}[/]")
    if speed_s is not None:
        console.print(f"choose over {rows:,} rows: {speed_s:.1f} s, Spark's start left out")


def lost(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Where the choice is not what it should be, in words."""
    said = []
    for name, one in found.items():
        if name == "adversarial":
            if not one["declined"]:
                said.append(f"{name}: not declined")
            continue
        if one["declined"]:
            said.append(f"{name}: declined")
        said += [
            f"{name}: {100 * one['choice']:.1f} % against {100 * one[rival]:.1f} % of {rival}"
            for rival in RIVALS
            if one["choice"] < one[rival] - MARGIN
        ]
        if one["choice"] < OF_HINDSIGHT * one["best_split_hindsight"]:
            said.append(f"{name}: below {OF_HINDSIGHT} of the best split")
    return said

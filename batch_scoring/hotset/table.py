"""A report as tables for people."""

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from batch_scoring.hotset.baselines import NAMES

_WORDS = {
    "choice": "the choice: precomputed and written back",
    "best_split_hindsight": "best split, with hindsight",
    "lru": "LRU",
    "lfu": "LFU",
    "wtinylfu": "W-TinyLFU",
    "sieve": "SIEVE",
    "random": "random set",
    "last_window": "last window's top",
    "past_top": "whole past's top",
    "static_oracle": "best set, with hindsight",
    "belady": "Belady, with hindsight",
}


def show(said: Mapping[str, Any]) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 110)
    log = said["log"]
    console.print(f"{log['requests']:,} requests for {log['known_entities']:,} entities, {said['slots']:,} slots")
    for reason, rows in log["rows_set_aside"].items():
        console.print(f"[yellow]{rows:,} rows set aside: {reason}[/]")
    if log["sample_share"] < 1:
        console.print(f"simulated on a sample of {log['sample_share']:.1%} of the entities")
    console.print(_hit_rates(said) if said["command"] == "backtest" else _choice(said))
    if said["declined"]:
        console.print(f"[bold]Precomputing does not pay here: {said['reason_declined']}.[/]")


def _hit_rates(said: Mapping[str, Any]) -> Table:
    table = Table(title=f"Hit rates over {len(said['windows'])} test windows", title_justify="left")
    table.add_column("")
    table.add_column("hit rate", justify="right")
    for name in ("choice", "best_split_hindsight", *NAMES):
        error = (
            f" ± {100 * 1.96 * said['standard_error']:.1f}" if name == "choice" and said["standard_error"] else ""
        )
        table.add_row(_WORDS[name], f"{100 * said[name]:.1f} %{error}", style="bold" if name == "choice" else "")
    table.add_section()
    for name, words in (
        ("hit_rate_by_cost", "of the choice, by cost"),
        ("hit_rate_by_bytes", "of the choice, by bytes of ids"),
        ("precomputed_hit_rate", "of precomputed answers alone"),
        ("peak_minute_miss_rate", "misses in the worst minute"),
        ("never_read_share", "precomputed and never read"),
        ("unseen_share", "requests for entities not seen before"),
        ("churn", "of the set new each time"),
    ):
        table.add_row(words, "–" if said[name] is None else f"{100 * said[name]:.1f} %")
    return table


def _saving(said: Mapping[str, Any]) -> str:
    if said["replicas_saved"] is None:
        return f"{said['expected_net_ms'] / 1000:,.1f} s of scoring a refresh"
    money = "" if said["money_saved_a_day"] is None else f", {said['money_saved_a_day']:,.2f} a day"
    return (
        f"{said['expected_net_ms'] / 1000:,.1f} s of scoring a refresh, {said['replicas_saved']} replicas{money}"
    )


def _choice(said: Mapping[str, Any]) -> Table:
    table = Table(title="The choice", title_justify="left", show_header=False)
    season = f", the same one {said['period_s'] / 86400:g} days before counts most" if said["period_s"] else ""
    step = said["next_step"]
    for words, value in (
        ("precomputed", f"{said['chosen']:,} entities, {said['chosen_share']:.1%} of the known"),
        ("of the slots", f"{said['split']:.0%} precomputed at most, the rest for written-back results"),
        ("Redis is best told", said["eviction"]),
        ("memory", f"{said['bytes']:,} bytes in all resident generations"),
        ("half-life", f"{said['half_life_s'] / said['refresh_s']:.3g} refreshes{season}"),
        ("expected", f"{said['expected_requests']:,.0f} requests a refresh, {said['expected_share']:.1%} of them"),
        ("saves", _saving(said)),
        ("a tenth more", f"{step['entities']:,} entities for {step['expected_requests']:,.0f} requests"),
    ):
        table.add_row(words, value)
    return table

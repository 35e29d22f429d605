"""The results as tables for people."""

import sys

from rich.console import Console
from rich.table import Table

from tests.bench.scoring.results import Results

_HEAD = (
    "model",
    "rows",
    "bare rows/s",
    "Spark rows/s",
    "× bare",
    "more rows × bare",
    "first run s",
    "max diff",
)


def show(results: Results) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 130)
    if results.models:
        console.print(_models(results))
        console.print(
            f"Spark itself took {results.start_s:.1f} s to start; a first run starts its Python workers and loads "
            "the model into them. Neither is in the ratios.\nMore rows: those beyond a tenth, which leaves out "
            "what every job takes."
        )
    for model in results.models:
        cpu = ", ".join(f"{part} {used_us:.0f}" for part, used_us in model.cpu_us_per_row.items())
        console.print(
            f"{model.name}: a Python worker took {model.few.peak_mb:.0f} MB for a tenth of the rows, × "
            f"{model.rss_growth:.2f} for all. CPU µs a row: {cpu}; the bare loop {model.bare_cpu_us_per_row:.0f}: "
            f"by CPU × {model.cpu_ratio:.2f}."
        )
    if results.wrong:
        console.print(f"[bold red]{results.wrong:,} ROWS DIFFER FROM THE BARE LOOP'S[/]")


def _models(results: Results) -> Table:
    title = f"Scoring on {results.cores} cores: the score step beside a bare torch loop on the same files"
    table = Table(title=title, title_justify="left", title_style="bold")
    for place, name in enumerate(_HEAD):
        table.add_column(name, justify="right" if place else "left")
    for model in results.models:
        table.add_row(
            model.name,
            f"{model.spark[0].rows:,}",
            f"{model.bare_per_s:,.0f}",
            f"{model.spark_per_s:,.0f}",
            f"{model.ratio:.2f}",
            f"{model.marginal_ratio:.2f}",
            f"{model.first_s:.1f}",
            f"{model.max_abs_diff:.1e}",
        )
    return table

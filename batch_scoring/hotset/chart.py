"""The report as a picture: the coverage curve with the chosen point, and hit rates by window beside others."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from schemas.hotset_report import HotSetReport

_SHOWN = {"choice": "choice", "lru": "LRU", "wtinylfu": "W-TinyLFU", "last_window": "last window's top"}


def draw(said: Mapping[str, Any], path: Path) -> None:
    """Writes a PNG."""
    # Imported here, since it takes a second that a refusal need not wait for. No pyplot: it keeps state.
    from matplotlib.figure import Figure

    windows = said.get("windows", [])
    figure = Figure(figsize=(11, 4.2) if windows else (5.5, 4.2), layout="constrained")
    axes = figure.subplots(1, 2 if windows else 1, squeeze=False)[0]
    _draw_coverage(axes[0], said)
    if windows:
        _draw_rates(axes[1], [window["hit_rates"] for window in windows])
    figure.savefig(path, dpi=110)


def draw_night(report: HotSetReport, file: IO[bytes]) -> None:
    """Writes a PNG."""
    from matplotlib.figure import Figure

    windows = report.backtest.windows if report.backtest else []
    figure = Figure(figsize=(11, 4.2) if windows else (5.5, 4.2), layout="constrained")
    axes = figure.subplots(1, 2 if windows else 1, squeeze=False)[0]
    point = report.chosen_point
    curve = [(one.entities, one.traffic) for one in report.coverage]
    _draw_curve(axes[0], curve, (point.entities, point.traffic), "chosen")
    if windows:
        _draw_rates(axes[1], [window.hit_rates for window in windows])
    figure.savefig(file, format="png", dpi=110)


def _draw_coverage(axes: Any, said: Mapping[str, Any]) -> None:
    windows = said.get("windows", [])
    if windows:
        known = said["log"]["known_entities"] * said["log"]["sample_share"]
        chosen = windows[-1]["fixed"] / max(known, 1)
        held, words = said["precomputed_hit_rate"], "precomputed, as it came"
    else:
        chosen, held, words = said["chosen_share"], said["expected_share"], "chosen"
    _draw_curve(axes, said["coverage"], (chosen, held), words)


def _draw_curve(axes: Any, curve: Sequence[tuple[float, float]], point: tuple[float, float], words: str) -> None:
    shares, traffic = zip(*curve, strict=True)
    axes.plot(shares, traffic, color="tab:blue")
    chosen, held = point
    axes.plot([chosen], [held], "o", color="tab:red", label=f"{words}: {chosen:.1%} → {held:.0%}")
    axes.set(xlabel="share of entities", ylabel="share of traffic", title="Coverage", ylim=(0, 1.02))
    axes.set_xlim(0, max(0.2, min(1.0, 3 * chosen)))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")


def _draw_rates(axes: Any, windows: Sequence[Mapping[str, float]]) -> None:
    """Hit rates by name, of each window."""
    for name, words in _SHOWN.items():
        rates = [window[name] for window in windows]
        axes.plot(
            rates, label=words, linewidth=2.2 if name == "choice" else 1, marker="." if len(rates) < 30 else ""
        )
    axes.set(xlabel="test window", ylabel="hit rate", title="Hit rate by window", ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="best", fontsize=8)

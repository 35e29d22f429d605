"""The profile as a picture: T(b) with its fit, and throughput b / T(b) with the knee."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from online.inference.profile.report import Profile
from schemas.capacity import LEAST_GAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEASURED = "#1f5a94"
_FIT = "#c8553d"


def draw(profile: Profile, path: Path) -> None:
    """Writes a PNG. Raises OSError."""
    import matplotlib

    matplotlib.use("Agg")  # there may be no display
    from matplotlib import pyplot

    figure, (time, rate) = pyplot.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    try:
        under = profile.under
        figure.suptitle(
            f"{profile.model} {profile.version} on {under.device} ({under.device_name}), "
            f"threads: {under.threads}, torch {under.torch_version}"
        )
        _draw_time(time, profile)
        _draw_rate(rate, profile)
        figure.savefig(path, dpi=110, format="png")
    finally:
        pyplot.close(figure)


def _draw_time(axes: "Axes", profile: Profile) -> None:
    fit = profile.fit
    line = np.linspace(0, profile.rows[-1], 200)
    label = f"fit: {fit.tau0_ms:.3g} ms + {fit.alpha_ms:.3g} ms × b"
    if not profile.is_linear:
        label += f"\n(up to {profile.worst_error:.0%} off)"
    axes.plot(line, fit.tau0_ms + fit.alpha_ms * line, color=_FIT, linewidth=1.5, label=label)
    axes.plot(profile.rows, profile.batch_ms, "o", color=_MEASURED, label="measured, median")
    axes.set(
        title="Time of a batch", xlabel="batch size b, rows", ylabel="T(b), ms", ylim=(0, None), xlim=(0, None)
    )
    _finish(axes, "upper left")


def _draw_rate(axes: "Axes", profile: Profile) -> None:
    line = np.linspace(1, profile.rows[-1], 400)
    fitted = 1e3 * line / (profile.fit.tau0_ms + profile.fit.alpha_ms * line)
    axes.plot(line, fitted, color=_FIT, linewidth=1.5, label="from the fit")
    axes.plot(profile.rows, profile.rows_per_s, "o", color=_MEASURED, label="measured")
    if profile.knee is not None:
        at = profile.rows_per_s[profile.rows.index(profile.knee)]
        axes.axvline(profile.knee, color="black", linestyle="--", linewidth=1)
        label = f"knee: {profile.knee} rows, {at:,.0f} rows/s\n(doubling gains under {LEAST_GAIN:.0%})"
        axes.plot([profile.knee], [at], "o", markersize=12, fillstyle="none", color="black", label=label)
    axes.set(
        title="Throughput", xlabel="batch size b, rows", ylabel="b / T(b), rows/s", ylim=(0, None), xlim=(0, None)
    )
    _finish(axes, "lower right")


def _finish(axes: "Axes", legend_at: Literal["upper left", "lower right"]) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc=legend_at, frameon=False)

"""What was measured, with what follows from it: the document, and the words and table on the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.capacity import LEAST_GAIN, BatchTime, doubling_gains, fit_batch_time, knee_rows, relative_errors
from schemas.manifest import Manifest

if TYPE_CHECKING:
    from rich.table import Table

# A planner that trusts the line may be wrong by as much.
LINEAR_WITHIN = 0.1


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which it was measured. `overruns`: batches that the emulated device could not do in its time."""

    device: str
    device_name: str
    threads: int
    torch_version: str
    rounds: int
    overruns: int


class Profile:
    """T(b) at each measured size, ascending, and the line through them. Times in milliseconds."""

    def __init__(self, manifest: Manifest, digest: str, measured: dict[int, float], under: Conditions) -> None:
        self.model, self.version, self.digest = manifest.name, manifest.version, digest
        self.under = under
        self.rows: Sequence[int] = sorted(measured)
        self.batch_ms = [measured[rows] for rows in self.rows]
        self.fit: BatchTime = fit_batch_time(self.rows, self.batch_ms)
        self.errors = relative_errors(self.fit, self.rows, self.batch_ms)
        self.gains = doubling_gains(self.rows, self.batch_ms)
        self.knee = knee_rows(self.rows, self.batch_ms)

    @property
    def rows_per_s(self) -> list[float]:
        return [1e3 * rows / ms for rows, ms in zip(self.rows, self.batch_ms, strict=True)]

    @property
    def worst_error(self) -> float:
        return max(map(abs, self.errors))

    @property
    def is_linear(self) -> bool:
        return self.worst_error <= LINEAR_WITHIN

    def document(self) -> dict[str, object]:
        """An entry of `versions` in the node's `/v1/profile`, with more beside it."""
        points = zip(self.rows, self.batch_ms, self.errors, self.rows_per_s, self.gains, strict=True)
        return {
            "model": self.model,
            "version": self.version,
            "digest": self.digest,
            "tau0_ms": self.fit.tau0_ms,
            "alpha_ms": self.fit.alpha_ms,
            "max_batch_rows": self.rows[-1],
            "measured": [
                {
                    "rows": rows,
                    "batch_ms": ms,
                    "relative_error": error,
                    "rows_per_s": rate,
                    "doubling_gain": gain,
                }
                for rows, ms, error, rate, gain in points
            ],
            "knee_rows": self.knee,
            "max_relative_error": self.worst_error,
            "is_linear": self.is_linear,
            "device": self.under.device,
            "device_name": self.under.device_name,
            "emulated": self.under.device.startswith("emulated:"),
            "overruns": self.under.overruns,
            "threads": self.under.threads,
            "torch_version": self.under.torch_version,
            "rounds": self.under.rounds,
        }

    def fit_in_words(self) -> str:
        line = f"T(b) = {self.fit.tau0_ms:.4g} ms + {self.fit.alpha_ms:.4g} ms × b"
        if self.is_linear:
            return f"{line}, at most {self.worst_error:.1%} from what was measured"
        at = self.rows[max(range(len(self.errors)), key=lambda place: abs(self.errors[place]))]
        return (
            f"The line does not fit: {line} is {self.worst_error:.0%} off at {at} rows "
            f"(more than {LINEAR_WITHIN:.0%}); plan with the measured sizes"
        )

    def knee_in_words(self) -> str:
        if self.knee is None:
            return f"No knee: each doubling up to {self.rows[-1]} rows gains {LEAST_GAIN:.0%} throughput or more"
        rate = self.rows_per_s[self.rows.index(self.knee)]
        return (
            f"Knee: {self.knee} rows, {rate:,.0f} rows/s; a batch twice as large gains under "
            f"{LEAST_GAIN:.0%} throughput"
        )

    def table(self) -> "Table":
        from rich.table import Table

        under = self.under
        cores = f"{under.threads} thread{'s' if under.threads != 1 else ''}"
        table = Table(title=f"{self.model} {self.version} on {under.device}, {cores}", title_justify="left")
        for heading in ("rows b", "T(b), ms", "fit, ms", "fit off by", "rows/s", "doubling gains"):
            table.add_column(heading, justify="right")
        points = zip(self.rows, self.batch_ms, self.errors, self.rows_per_s, self.gains, strict=True)
        for rows, ms, error, rate, gain in points:
            cells = (f"{ms:.3f}", f"{self.fit.batch_ms(rows):.3f}", f"{error:+.1%}", f"{rate:,.0f}")
            gained = "" if gain is None else f"{gain:+.0%}"
            name = f"knee {rows}" if rows == self.knee else str(rows)
            table.add_row(name, *cells, gained, style="bold" if rows == self.knee else None)
        return table

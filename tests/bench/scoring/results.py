"""All that one run of the benchmark found, and the line of JSON that says it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from statistics import mean

from tests.bench.json_line import json_line
from tests.bench.scoring.bare import BareRun
from tests.bench.scoring.models import DEMO, MLP
from tests.bench.scoring.product import SparkRun


@dataclass(frozen=True)
class ModelResult:
    """`first_s`: of the small run that starts Spark's Python workers and loads the model into them.

    Attributes:
        few: Spark's run of a tenth of the rows.
        bare: one turn more than of Spark, so that each of Spark's lies between two.
        wrong: rows that are missing or differ by more than the bundle's tolerance.
    """

    name: str
    first_s: float
    few: SparkRun
    spark: Sequence[SparkRun]
    bare: Sequence[BareRun]
    wrong: int
    max_abs_diff: float

    @property
    def bare_per_s(self) -> float:
        return mean(run.rows_per_s for run in self.bare)

    @property
    def spark_per_s(self) -> float:
        return mean(run.rows_per_s for run in self.spark)

    @property
    def ratio(self) -> float:
        return self.spark_per_s / self.bare_per_s

    @property
    def marginal_ratio(self) -> float:
        """Of the rows beyond a tenth: what every job takes, however few its rows, is left out."""
        more = mean(run.seconds for run in self.spark) - self.few.seconds
        return (self.spark[0].rows - self.few.rows) / more / self.bare_per_s if more > 0 else nan

    @property
    def cpu_us_per_row(self) -> dict[str, float]:
        """Of Spark's last turn, by part."""
        last = self.spark[-1]
        return {part: 1e6 * used_s / last.rows for part, used_s in last.cpu_s.items()}

    @property
    def bare_cpu_us_per_row(self) -> float:
        return mean(1e6 * run.cpu_s / run.rows for run in self.bare)

    @property
    def cpu_ratio(self) -> float:
        """The bare loop's CPU over Spark's: the ratio of the rates where both keep the cores busy, and what else
        the machine does changes neither.
        """
        return self.bare_cpu_us_per_row / sum(self.cpu_us_per_row.values())

    @property
    def rss_growth(self) -> float:
        return max(run.peak_mb for run in self.spark) / self.few.peak_mb


@dataclass
class Results:
    """Filled as the parts are measured. `start_s`: of Spark itself."""

    cores: int = 0
    start_s: float = nan
    models: list[ModelResult] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def wrong(self) -> int:
        return sum(model.wrong for model in self.models)

    def to_json(self) -> bytes:
        """One line. Times in seconds by name, ratios plain; null for what was not measured."""
        return json_line(self.document())

    def document(self) -> dict[str, object]:
        by_name = {model.name: model for model in self.models}
        return {
            **{
                f"spark_over_bare_{name}": by_name[name].ratio if name in by_name else None for name in (DEMO, MLP)
            },
            "worker_rss_growth_10x_rows": max((model.rss_growth for model in self.models), default=None),
            "wrong_rows": self.wrong,
            "cores": self.cores,
            "spark_start_s": self.start_s,
            "models": {model.name: _model(model) for model in self.models},
            "wall_s": self.wall_s,
        }


def _model(model: ModelResult) -> dict[str, object]:
    numbers: dict[str, object] = {
        "rows": model.spark[0].rows,
        "bare_rows_per_s": model.bare_per_s,
        "spark_rows_per_s": model.spark_per_s,
        "spark_over_bare_by_cpu": model.cpu_ratio,
        "bare_cpu_us_per_row": model.bare_cpu_us_per_row,
        "spark_marginal_over_bare": model.marginal_ratio,
        "first_run_s": model.first_s,
        "model_loads": max(run.loads for run in model.spark),
        "max_abs_diff": model.max_abs_diff,
    }
    single: dict[str, object] = {
        "worker_rss_mb": [model.few.peak_mb, *(run.peak_mb for run in model.spark)],
        "spark_cpu_us_per_row": model.cpu_us_per_row,
        "bare_seconds": [run.seconds for run in model.bare],
        "spark_seconds": [run.seconds for run in model.spark],
    }
    return numbers | single

"""A night's log that this process could not hold: counted, ranked and summed by Spark."""

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from batch_scoring.hotset.choosing import Choice, Room
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.coverage import coverage_of_counts
from batch_scoring.hotset.decayed import age_sql, decayed_counts
from batch_scoring.hotset.everybody import choose_among
from batch_scoring.hotset.fit import Fit
from batch_scoring.hotset.nightly import log_rows
from batch_scoring.hotset.nightly.log import Curve
from batch_scoring.hotset.nightly.log_rows import RowFacts
from batch_scoring.hotset.nightly.traffic import COLUMNS, MINUTE_S, Traffic, summed
from batch_scoring.hotset.sampling import trace_of
from batch_scoring.hotset.spark_log import sample_rows
from batch_scoring.hotset.trace import Trace


class LargeLog:
    """A `Log`; `close` gives its memory back.

    Args:
        rows: as `log_rows.write_rows` gives them.
        known: (entity) of those with features.
    """

    def __init__(
        self, spark: SparkSession, rows: DataFrame, known: DataFrame, as_of_s: float, refresh_s: float
    ) -> None:
        self._spark, self._rows, self._known = spark, rows, known.select("entity")
        self._as_of_s, self._refresh_s = as_of_s, refresh_s
        self._requests = log_rows.good_requests(rows)

    @cached_property
    def facts(self) -> RowFacts:
        return log_rows.facts(self._rows)

    def sample(self, most_requests: int) -> tuple[Trace, set[str], float]:
        share = min(1.0, most_requests / max(1, self.facts.requests))
        marks = self._known.withColumn("is_known", F.lit(True))
        found = _table(sample_rows(self._requests, share).join(marks, "entity", "left"))
        unknown = pc.unique(found.filter(pc.is_null(found["is_known"]))["entity"])
        return trace_of(found), set(unknown.to_pylist()), share

    def known_of(self, names: Sequence[str]) -> list[str]:
        if not names:
            return []
        found = set(_table(self._named(names).join(self._known, "entity", "left_semi"))["entity"].to_pylist())
        return [name for name in names if name in found]

    def count(self, fit: Fit, past: int) -> None:
        self._fit, self._past = fit, past
        counts = decayed_counts(self._requests, self._as_of_s, past, self._refresh_s, fit.profile)
        marks = self._known.withColumn("is_known", F.lit(True))
        self._counts = counts.join(marks, "entity", "left").persist(StorageLevel.MEMORY_AND_DISK)

    def close(self) -> None:
        if hasattr(self, "_counts"):
            self._counts.unpersist()

    def choose(self, model: CostModel, room: Room, mandatory: Collection[str], blocked: Collection[str]) -> Choice:
        known = self._counts.where("is_known")
        return choose_among(known, self._past, self._fit, model, room, mandatory, blocked)

    def weights_of(self, names: Sequence[str]) -> list[float]:
        found = _table(self._counts.join(self._named(names), "entity", "left_semi").select("entity", "weight"))
        weights = dict(zip(found["entity"].to_pylist(), found["weight"].to_pylist(), strict=True))
        return [weights.get(name, 0.0) for name in names]

    def curve(self, known: int) -> tuple[Curve, int]:
        rows = _table(self._counts.groupBy("requests", F.col("is_known").isNotNull().alias("is_known")).count())
        requests, is_known, alike = (rows[name].to_numpy() for name in ("requests", "is_known", "count"))
        is_known = is_known.astype(np.bool_)
        numbers = requests[is_known].astype(np.float64), alike[is_known].astype(np.float64)
        return coverage_of_counts(*numbers, float((requests * alike).sum()), known), int(alike.sum())

    def traffic(self, hot: Sequence[str], old: Sequence[str], since_s: float | None) -> Traffic:
        rows = self._requests
        for names, mark in ((hot, "is_hot"), (old, "is_old")):
            marks = self._named(names).withColumn(mark, F.lit(1))
            rows = rows.join(marks, "entity", "left").fillna(0, [mark])
        age = age_sql(self._as_of_s, self._refresh_s)
        weight = F.expr(f"IF({age} <= {self._past}, requests * {self._fit.profile.sql(age)}, 0.0D)")
        sums = (
            F.sum("requests").alias("requests"),
            F.sum(F.expr("requests * is_hot")).alias("hot"),
            F.sum(F.expr("requests * is_old")).alias("old"),
            F.sum(weight).alias("weight"),
            F.sum(weight * F.col("is_hot")).alias("hot_weight"),
        )
        minute = F.expr(f"CAST(floor(time_s / {MINUTE_S}) AS BIGINT)").alias("minute")
        found = _table(rows.groupBy(minute).agg(*sums))
        return summed({name: found[name].to_numpy() for name in COLUMNS}, since_s)

    def _named(self, names: Sequence[str]) -> DataFrame:
        """(entity) of so many names as one process may hold."""
        return self._spark.createDataFrame(pa.table({"entity": pa.array(names, pa.string())}))


def _table(rows: DataFrame) -> pa.Table:
    found = rows.toArrow()
    assert isinstance(found, pa.Table)
    return found

"""A log too large for memory, through Spark: its facts, a sample of its entities as a trace, decayed counts."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_scoring.hotset.columns import Columns, epoch_divisor, is_text_type
from batch_scoring.hotset.counts import decayed_counts
from batch_scoring.hotset.log_reading import LogSource
from batch_scoring.hotset.profiles import Profile
from batch_scoring.hotset.sampling import HASH_MODULUS, hash_sql
from batch_scoring.hotset.trace import DAY_S, BadLog, Trace

_ORDER_DAYS = 10


@dataclass(frozen=True)
class LogFacts:
    """Of the rows that can be read: how many, from when to when. `aside`: the others, by reason."""

    rows: int
    kept: int
    begin_s: float
    end_s: float
    aside: Counter[str]


class SparkLog:
    """Rows of (entity, moment): seconds, or places in an order. Costs of rows are not read here.

    Raises BadLog where the log has neither times nor an order: files of many parts have no order of their own.
    """

    def __init__(self, spark: SparkSession, source: LogSource, columns: Columns) -> None:
        if not (columns.time or columns.order):
            raise BadLog("a log this large needs a column of times or of an order: give --time-column")
        self._columns = columns
        moment = columns.time or columns.order
        assert moment
        # Spark knows no nanoseconds; without this it refuses such a file.
        spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
        urls = [f"file://{path.absolute()}" for path in source.files]
        if source.is_csv:
            raw = spark.read.csv(urls, header=True, sep=source.separator, inferSchema=False)
        else:
            raw = spark.read.parquet(*urls)
        quoted = [F.col(f"`{name}`") for name in (columns.entity, moment)]
        self._raw = raw.select(
            quoted[0].cast("string").alias("entity"), _moment(quoted[1], source.types[moment]).alias("moment")
        )

    @cached_property
    def facts(self) -> LogFacts:
        size = F.octet_length("entity")
        bad = {
            "no entity": F.coalesce(size, F.lit(0)) == 0,
            "entity over 256 bytes": size > 256,
            "no time or order": F.col("moment").isNull() & (size > 0) & (size <= 256),
        }
        counts = [F.count_if(is_bad) for is_bad in bad.values()]
        is_good = (size > 0) & (size <= 256) & F.col("moment").isNotNull()
        good = F.when(is_good, F.col("moment"))
        found = self._raw.agg(F.count("*"), F.count(good), F.min(good), F.max(good), *counts).first()
        if found is None or not found[1]:
            raise BadLog("no row of the log has an entity and a time that can be read")
        aside = Counter(dict(zip(bad, found[4:], strict=True)))
        self._is_good = is_good
        self._scale, self._shift = self._seconds(float(found[2]), float(found[3]))
        begin_s, end_s = (float(at) * self._scale - self._shift for at in found[2:4])
        return LogFacts(found[0], found[1], begin_s, end_s, +aside)

    @property
    def rows(self) -> DataFrame:
        """(entity, time_s) of what can be read."""
        assert self.facts
        time_s = F.col("moment") * F.lit(self._scale) - F.lit(self._shift)
        return self._raw.where(self._is_good).select("entity", time_s.alias("time_s"))

    def sample(self, most_requests: int) -> tuple[Trace, float]:
        """As `sampling.sampled`, and the same entities."""
        share = min(1.0, most_requests / self.facts.kept)
        rows = self.rows if share == 1 else self.rows.where(F.expr(hash_sql("entity")) < share * HASH_MODULUS)
        table = rows.toArrow()
        assert isinstance(table, pa.Table)
        if not table.num_rows:
            raise BadLog("the sample of entities is empty: give a larger --simulate-requests")
        coded = table["entity"].combine_chunks().dictionary_encode()
        codes = coded.indices.to_numpy().astype(np.int64)
        return Trace.of(codes, coded.dictionary.to_pylist(), table["time_s"].to_numpy().astype(np.float64)), share

    def counts(self, as_of_s: float, windows: int, refresh_s: float, profile: Profile) -> DataFrame:
        """(entity, weight, requests) of the `windows` windows before `as_of_s`."""
        age = f"({as_of_s!r}D - time_s) / {refresh_s!r}D"
        inside = f"{age} > 0 AND {age} <= {windows}"
        return decayed_counts(self.rows.where(inside), F.expr(profile.sql(age)))

    def _seconds(self, first: float, last: float) -> tuple[float, float]:
        """By what a moment is multiplied, and what is taken off, to give seconds."""
        if self._columns.order:
            # A log without times: a tenth of its order counts as a day.
            scale = _ORDER_DAYS * DAY_S / max(last - first + 1, 1.0)
            return scale, first * scale
        return 1.0 / (epoch_divisor(max(abs(first), abs(last))) or 1.0), 0.0


def _moment(column: Column, kind: pa.DataType) -> Column:
    """A number: as given, or microseconds of an epoch."""
    if pa.types.is_timestamp(kind):
        return (
            column.cast("double") if kind.unit == "ns" else F.unix_micros(column.cast("timestamp")).cast("double")
        )
    if pa.types.is_date(kind):
        return F.unix_micros(column.cast("timestamp")).cast("double")
    if is_text_type(kind):
        as_time = F.unix_micros(F.try_to_timestamp(column)).cast("double")
        return F.coalesce(column.try_cast("double"), as_time)
    return column.cast("double")

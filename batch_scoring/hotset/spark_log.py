"""A log too large for memory, through Spark: its facts, a sample of its entities as a trace, decayed counts."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_scoring.hotset.columns import Columns, epoch_divisor, is_text_type
from batch_scoring.hotset.log_reading import LogSource
from batch_scoring.hotset.sampling import HASH_MODULUS, hash_sql, trace_of
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
        request_id = F.xxhash64(F.col(f"`{columns.id}`")) if columns.id else F.lit(None)
        has_id = F.octet_length(F.col(f"`{columns.id}`").cast("string")) > 0 if columns.id else F.lit(False)
        self._raw = raw.select(
            quoted[0].cast("string").alias("entity"),
            _moment(quoted[1], source.types[moment]).alias("moment"),
            F.when(has_id, request_id).cast("bigint").alias("id_hash"),
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
        kept = int(found[1])
        if self._columns.id:
            counted = self._counted().agg(F.sum("requests")).first()
            assert counted
            aside["duplicated"] = kept - int(counted[0])
            kept = int(counted[0])
        return LogFacts(found[0], kept, begin_s, end_s, +aside)

    @property
    def requests(self) -> DataFrame:
        """(entity, time_s, requests) of what can be read."""
        assert self.facts
        time_s = F.col("moment") * F.lit(self._scale) - F.lit(self._shift)
        return self._counted().select("entity", time_s.alias("time_s"), "requests")

    def _counted(self) -> DataFrame:
        """(entity, moment, requests): what was written twice is counted once, where the log has ids."""
        good = self._raw.where(self._is_good)
        if not self._columns.id:
            return good.withColumn("requests", F.lit(1))
        copies = good.groupBy("entity", "moment", "id_hash").agg(F.count("*").alias("copies"))
        return copies.withColumn("requests", counted_copies())

    def sample(self, most_requests: int) -> tuple[Trace, float]:
        """As `sampling.sampled`, and the same entities."""
        share = min(1.0, most_requests / self.facts.kept)
        table = sample_rows(self.requests, share).toArrow()
        assert isinstance(table, pa.Table)
        if not table.num_rows:
            raise BadLog("the sample of entities is empty: give a larger --simulate-requests")
        return trace_of(table), share

    def _seconds(self, first: float, last: float) -> tuple[float, float]:
        """By what a moment is multiplied, and what is taken off, to give seconds."""
        if self._columns.order:
            # A log without times: a tenth of its order counts as a day.
            scale = _ORDER_DAYS * DAY_S / max(last - first + 1, 1.0)
            return scale, first * scale
        return 1.0 / (epoch_divisor(max(abs(first), abs(last))) or 1.0), 0.0


def counted_copies() -> Column:
    """Of rows that are alike: one request where they have an id, else as many as there are."""
    return F.when(F.col("id_hash").isNull(), F.col("copies")).otherwise(F.lit(1).cast("bigint"))


def sample_rows(requests: DataFrame, share: float) -> DataFrame:
    """Those of the entities that `sampling.is_sampled` takes."""
    return requests if share >= 1 else requests.where(F.expr(hash_sql("entity")) < share * HASH_MODULUS)


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

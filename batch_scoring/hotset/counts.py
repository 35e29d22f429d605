"""Decayed counts of requests by entity, from the request log. A request of one half-life ago counts half."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_scoring.hotset.log_files import Kind

# Rows of these answers tell of an entity that can be precomputed; older logs hold the first only.
_ANSWERED = (200, 304)


def request_weights(
    spark: SparkSession, files: Mapping[str, Kind], begin: datetime, as_of: datetime, half_life_days: float
) -> DataFrame:
    """(entity, weight, requests) over [begin, as_of); no files give no rows.

    Args:
        files: addresses and how to read each: of older schemas only the columns needed are read, and cast.
    """
    if not files:
        return spark.createDataFrame([], "entity string, weight double, requests bigint")
    log = _read(spark, files)
    age_days = (F.lit(as_of.timestamp()) - F.unix_micros("time") / 1e6) / 86400
    window = (F.col("time") >= F.lit(begin)) & (F.col("time") < F.lit(as_of))
    kept = log.where(window & F.col("entity").isNotNull() & F.col("status").isin(*_ANSWERED))
    return decayed_counts(kept, F.pow(F.lit(0.5), age_days / F.lit(half_life_days)))


def decayed_counts(log: DataFrame, weight: Column) -> DataFrame:
    """(entity, weight, requests): sums over a log's rows, each of which has an `entity` and counts `weight`."""
    # Rounded, since a sum's last digits depend on the order of addition, which a retry may change.
    return log.groupBy("entity").agg(F.round(F.sum(weight), 9).alias("weight"), F.count("*").alias("requests"))


def peak_minute_requests(spark: SparkSession, files: Mapping[str, Kind], begin: datetime, as_of: datetime) -> int:
    """The most answered requests in any one minute of [begin, as_of)."""
    if not files:
        return 0
    window = (F.col("time") >= F.lit(begin)) & (F.col("time") < F.lit(as_of))
    answered = _read(spark, files).where(window & F.col("status").isin(*_ANSWERED))
    minutes = answered.groupBy(F.expr("unix_micros(time) div 60000000").alias("minute")).count()
    peak = minutes.agg(F.max("count")).first()
    return int(peak[0] or 0) if peak else 0


def _read(spark: SparkSession, files: Mapping[str, Kind]) -> DataFrame:
    """time, entity, status: files that differ in the type of a column are read in groups of equal type."""
    groups: dict[Kind, list[str]] = {}
    for url, kind in files.items():
        groups.setdefault(kind, []).append(url)
    return reduce(DataFrame.unionByName, [_read_kind(spark, kind, urls) for kind, urls in groups.items()])


def _read_kind(spark: SparkSession, kind: Kind, urls: list[str]) -> DataFrame:
    schema = f"time {'bigint' if kind.is_nanos else 'timestamp'}, entity string"
    if kind.status:
        schema += f", status {kind.status}"
    # Spark knows no nanoseconds; without this it refuses such a file even where a number is asked for.
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    read = spark.read.schema(schema).parquet(*urls)
    time = F.timestamp_micros(F.expr("time div 1000")) if kind.is_nanos else F.col("time")
    status = F.col("status").cast("int") if kind.status else F.lit(_ANSWERED[0])
    return read.select(time.alias("time"), "entity", status.alias("status"))


def window_begin(as_of: datetime, history_days: int) -> datetime:
    return as_of - timedelta(days=history_days)

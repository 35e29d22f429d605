"""Decayed counts of requests by entity, from the request log. A request of one half-life ago counts half."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_scoring.files import file_system

# Rows of these answers tell of an entity that can be precomputed; logs before a `status` column hold no others.
_ANSWERED = 200


def request_weights(
    spark: SparkSession, files: Sequence[str], begin: datetime, as_of: datetime, half_life_days: float
) -> DataFrame:
    """(entity, weight, requests) over [begin, as_of); no files give no rows.

    Files may be of older schemas: each is read by itself for the columns needed, with their types cast.
    """
    if not files:
        return spark.createDataFrame([], "entity string, weight double, requests bigint")
    log = _read(spark, files)
    age_days = (F.lit(as_of.timestamp()) - F.unix_micros("time") / 1e6) / 86400
    window = (F.col("time") >= F.lit(begin)) & (F.col("time") < F.lit(as_of))
    weight = F.pow(F.lit(0.5), age_days / F.lit(half_life_days))
    kept = log.where(window & F.col("entity").isNotNull() & (F.col("status") == _ANSWERED))
    return kept.groupBy("entity").agg(F.sum(weight).alias("weight"), F.count("*").alias("requests"))


def _read(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """time, entity, status: files that differ in the type of a column are read in groups of equal type."""
    groups: dict[str | None, list[str]] = {}
    for file in files:
        groups.setdefault(_status_type(file), []).append(file)
    parts = []
    for kind, group in groups.items():
        status = F.lit(_ANSWERED) if kind is None else F.col("status").cast("int")
        schema = "time timestamp, entity string" + ("" if kind is None else f", status {kind}")
        read = spark.read.schema(schema).parquet(*group)
        parts.append(read.select("time", "entity", status.alias("status")))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


def _status_type(file: str) -> str | None:
    """Spark's name of the type of `status` in this file, or None where it has none."""
    filesystem, path = file_system(file)
    with filesystem.open(path, "rb") as opened:
        schema = pq.read_schema(opened)
    if "status" not in schema.names:
        return None
    return {"int16": "smallint", "int32": "int", "int64": "bigint"}.get(str(schema.field("status").type), "int")


def window_begin(as_of: datetime, history_days: int) -> datetime:
    return as_of - timedelta(days=history_days)

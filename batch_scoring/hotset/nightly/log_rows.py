"""The night's request log in Spark: each row judged, duplicates counted once, and written for the passes to come.

Written before anything is counted, since every pass would otherwise read and judge the whole log again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_scoring.files import remove, staged_folder
from batch_scoring.hotset.log_files import Kind, LogFiles, drop_damaged
from batch_scoring.hotset.spark_log import counted_copies
from schemas.names import IMPORTED_ID, MAX_ENTITY_BYTES

# Rows of these answers tell of an entity that can be precomputed; older logs hold the first only.
_ANSWERED = (200, 304)
# A row that lies in the folder of an hour further off than this came late, or by a wrong clock.
_GRACE_S = 3600
_HOUR_S = 3600
NOT_ANSWERED, OUTSIDE = "not answered", "outside"
DUPLICATED, UNKNOWN_VERSION = "duplicated", "unknown schema version"
_WRITTEN = pa.schema(
    [
        pa.field("reason", pa.string()),
        pa.field("entity", pa.string()),
        pa.field("time_us", pa.int64()),
        pa.field("requests", pa.int64()),
        pa.field("copies", pa.int64()),
    ]
)


@dataclass(frozen=True)
class RowFacts:
    """How many rows were read, and what became of them.

    Attributes:
        requests: rows that count; `first_s`: of the oldest, None without any.
        set_aside: the faulty ones, by reason.
    """

    requests: int
    first_s: float | None
    not_answered: int
    outside: int
    set_aside: dict[str, int]


def write_rows(
    spark: SparkSession, url: str, files: LogFiles, data_url: str, begin: datetime, as_of: datetime
) -> None:
    """Writes the judged rows of [begin, as_of) to `url`: reason (null is good), entity, time_us, requests, copies.

    A file whose footer is sound and whose pages are not is found here, and set aside.
    """
    remove(url)
    while files.good:
        try:
            with staged_folder(url) as staged:
                judged(_read(spark, files.good), begin, as_of).write.parquet(staged)
        except (Py4JJavaError, PySparkException):
            if not drop_damaged(data_url, files):
                raise
        else:
            return


def judged(log: DataFrame, begin: datetime, as_of: datetime) -> DataFrame:
    """One row for equal ones, and one for each reason that a row does not count for.

    Rows of one request, entity and moment are one request, written twice; rows without a request's id are all
    counted, since nothing tells a copy from another request.
    """
    judged = log.withColumn("reason", _reason(begin, as_of))
    is_good = F.col("reason").isNull()
    keys = [F.when(is_good, F.col(name)).alias(name) for name in ("entity", "time_us", "id_hash")]
    copies = judged.groupBy("reason", *keys).agg(F.count("*").alias("copies"))
    requests = F.when(is_good, counted_copies()).otherwise(0)
    return copies.select("reason", "entity", "time_us", requests.cast("bigint").alias("requests"), "copies")


def facts(rows: DataFrame) -> RowFacts:
    """Of what `write_rows` wrote."""
    sums = rows.groupBy("reason").agg(F.sum("requests"), F.sum("copies"), F.min("time_us"))
    return _facts(tuple(row) for row in sums.collect())


def conformed(rows: pa.Table) -> pa.Table:
    """As written; with the columns also where nothing was."""
    return rows.cast(_WRITTEN) if rows.num_rows else _WRITTEN.empty_table()


def table_facts(rows: pa.Table) -> RowFacts:
    """As `facts`."""
    found = rows.group_by("reason").aggregate([("requests", "sum"), ("copies", "sum"), ("time_us", "min")])
    return _facts(tuple(row.values()) for row in found.to_pylist())


def _facts(sums: Iterable[tuple[Any, ...]]) -> RowFacts:
    """`sums`: reason, requests, copies and the first time of each."""
    found = {reason: numbers for reason, *numbers in sums}
    requests, rows, first_us = found.pop(None, (0, 0, None))
    by_reason = {reason: int(copies) for reason, (_, copies, _) in found.items()}
    not_answered, outside = (by_reason.pop(reason, 0) for reason in (NOT_ANSWERED, OUTSIDE))
    by_reason |= {DUPLICATED: int(rows - requests)} if rows > requests else {}
    first_s = None if first_us is None else first_us / 1e6
    return RowFacts(int(requests), first_s, not_answered, outside, by_reason)


def good_requests(rows: DataFrame) -> DataFrame:
    """(entity, time_s, requests)"""
    time_s = (F.col("time_us") / F.lit(1e6)).alias("time_s")
    return rows.where(F.col("reason").isNull()).select("entity", time_s, "requests")


def table_requests(rows: pa.Table) -> pa.Table:
    """As `good_requests`."""
    good = rows.filter(pc.is_null(rows["reason"]))
    time_s = pc.divide(good["time_us"].cast(pa.float64()), 1e6)
    return pa.table({"entity": good["entity"], "time_s": time_s, "requests": good["requests"]})


def _reason(begin: datetime, as_of: datetime) -> Column:
    """Null for a row that counts; the first that holds."""
    size, time_us = F.octet_length("entity"), F.col("time_us")
    hour_us = F.col("hour_s") * 1_000_000
    grace_us, hours_us = _GRACE_S * 1_000_000, _HOUR_S * 1_000_000
    window = (time_us >= _micros(begin)) & (time_us < _micros(as_of))
    return (
        F.when(~F.coalesce(F.col("status").isin(*_ANSWERED), F.lit(False)), NOT_ANSWERED)
        .when(F.coalesce(size, F.lit(0)) == 0, "no entity")
        .when(size > MAX_ENTITY_BYTES, f"entity over {MAX_ENTITY_BYTES} bytes")
        .when(time_us.isNull(), "no time")
        .when(time_us < hour_us - grace_us, "late")
        .when(time_us >= hour_us + hours_us + grace_us, "ahead of its hour")
        .when(~window, OUTSIDE)
    )


def _micros(moment: datetime) -> Column:
    return F.unix_micros(F.lit(moment))


def _read(spark: SparkSession, files: Mapping[str, Kind]) -> DataFrame:
    """entity, time_us, status, id_hash, hour_s: files that differ in a column's type are read in groups."""
    groups: dict[Kind, list[str]] = {}
    for url, kind in files.items():
        groups.setdefault(kind, []).append(url)
    return reduce(DataFrame.unionByName, [_read_kind(spark, kind, urls) for kind, urls in groups.items()])


def _read_kind(spark: SparkSession, kind: Kind, urls: list[str]) -> DataFrame:
    schema = f"time {'bigint' if kind.is_nanos else 'timestamp'}, entity string"
    schema += f", status {kind.status}" if kind.status else ""
    schema += ", request_id string" if kind.has_ids else ""
    # Spark knows no nanoseconds; without this it refuses such a file even where a number is asked for.
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    read = spark.read.schema(schema).parquet(*urls)
    time_us = F.expr("time div 1000") if kind.is_nanos else F.unix_micros("time")
    status = F.col("status").cast("int") if kind.status else F.lit(_ANSWERED[0])
    given = F.when(F.col("request_id") != IMPORTED_ID, F.xxhash64("request_id")) if kind.has_ids else F.lit(None)
    return read.select(
        "entity",
        time_us.alias("time_us"),
        status.alias("status"),
        given.cast("bigint").alias("id_hash"),
        _hour_s().alias("hour_s"),
    )


def _hour_s() -> Column:
    """When the hour of the file's folder begins; null where the folder is of no hour."""
    folder = F.regexp_extract(F.col("_metadata.file_path"), r"date=(\d{4}-\d\d-\d\d)/hour=\d\d/", 1)
    hour = F.regexp_extract(F.col("_metadata.file_path"), r"/hour=(\d\d)/", 1)
    return F.unix_seconds(F.try_to_timestamp(folder, F.lit("yyyy-MM-dd"))) + hour.try_cast("int") * _HOUR_S

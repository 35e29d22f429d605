"""The feature query over the source tables: one text for the nightly table and for training."""

import re
from collections.abc import Sequence
from datetime import datetime

import fsspec
from pyspark.sql import DataFrame, SparkSession

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SETTINGS = {
    # A folder `carrier=01` is text, not the number 1.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


def feature_rows(spark: SparkSession, tables_url: str, query_text: str, as_ofs: Sequence[datetime]) -> DataFrame:
    """Plans the query; nothing is computed until the result is read.

    Args:
        tables_url: folder or fsspec URL; each folder NAME in it, of Parquet files, is the query's table NAME.
        query_text: one Spark SQL statement, which sees `days(as_of timestamp)` too: a row an (entity, as_of).
        as_ofs: the moments, with time zone, of `days`.

    Raises:
        ValueError: no moments, one without time zone, or no tables.
    """
    if not as_ofs or any(as_of.tzinfo is None for as_of in as_ofs):
        raise ValueError("the query needs moments with a time zone")
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    tables = _tables(tables_url)
    if not tables:
        raise ValueError(f"{tables_url} has no tables: a folder of Parquet files for each is expected")
    for name, url in tables.items():
        spark.read.parquet(url).createOrReplaceTempView(name)
    micros = ", ".join(f"({int(as_of.timestamp() * 1_000_000)})" for as_of in sorted(set(as_ofs)))
    # A literal, so that the planner knows how few rows it is, and sends them to where the tables are.
    spark.sql(f"SELECT timestamp_micros(m) AS as_of FROM VALUES {micros} AS moments(m)").createOrReplaceTempView(
        "days"
    )
    return spark.sql(query_text)


def _tables(tables_url: str) -> dict[str, str]:
    """URL by name of each folder that can be a table's."""
    files, root = fsspec.core.url_to_fs(tables_url)
    found = [entry["name"].rstrip("/") for entry in files.ls(root, detail=True) if entry["type"] == "directory"]
    names = {path.rpartition("/")[2]: path for path in sorted(found)}
    return {name: files.unstrip_protocol(path) for name, path in names.items() if _TABLE.match(name)}

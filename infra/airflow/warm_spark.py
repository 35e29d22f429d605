"""A small job that touches what the nightly jobs use, so that set-up can archive the classes they load."""

import sys
import tempfile
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main() -> int:
    """Reads and writes Parquet, aggregates, ranks, and passes Arrow batches through Python."""
    spark = SparkSession.builder.getOrCreate()
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = spark.range(100).selectExpr("cast(id % 7 as string) as entity", "id / 3 as value")
            rows.coalesce(1).write.parquet(f"{folder}/rows")
            spark.read.parquet(f"{folder}/rows").createOrReplaceTempView("rows")
            ranked = spark.sql(
                "select entity, crc32(cast(entity as binary)) as bucket, sum(value) as total,"
                " row_number() over (order by sum(value) desc) as place from rows group by entity"
            )
            ranked.mapInArrow(_same, ranked.schema).write.parquet(f"{folder}/ranked")
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The online feature table: packed records into Redis bucket by bucket, and the snapshot file beside it."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row

from batch_scoring.bucket_writer import write_buckets
from batch_scoring.files import dataset, file_system
from batch_scoring.settings import BatchSettings
from schemas.arrow import SNAPSHOT
from schemas.feature_table import pack_record, snapshot_key
from schemas.keys import bucket_of, feature_prefix, field_of

PACKED_SCHEMA = "key decimal(20,0), bucket int, field binary, record binary, entity string, reason string"
_PACKED = pa.schema(
    [
        pa.field("key", pa.decimal128(20, 0)),
        pa.field("bucket", pa.int32()),
        pa.field("field", pa.binary()),
        pa.field("record", pa.binary()),
        pa.field("entity", pa.string()),
        pa.field("reason", pa.string()),
    ]
)


def packed(rows: DataFrame, features: Sequence[str], buckets: int) -> DataFrame:
    """(key, bucket, field, record, entity, reason) of each row; `reason` says why one could not be packed."""
    names = list(features)

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _pack_batch(batch, names, buckets)

    return rows.mapInArrow(pack, PACKED_SCHEMA)


def _pack_batch(batch: pa.RecordBatch, features: Sequence[str], buckets: int) -> pa.RecordBatch:
    columns = [batch.column(name).to_pylist() for name in features]
    out: list[tuple[object, ...]] = []
    for place, entity in enumerate(batch.column("entity").to_pylist()):
        raw = entity.encode()
        try:
            record = pack_record(raw, [column[place] for column in columns])
        except ValueError as error:
            out.append((0, 0, b"", b"", entity, str(error)))
        else:
            out.append((snapshot_key(raw), bucket_of(raw, buckets), field_of(raw), record, entity, None))
    if not out:
        return pa.RecordBatch.from_pylist([], schema=_PACKED)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(zip(*out, strict=True), _PACKED, strict=True)],
        schema=_PACKED,
    )


def load_into_redis(table: DataFrame, model: str, generation: str, buckets: int, settings: BatchSettings) -> None:
    """Replaces each bucket of the table with its rows. A bucket is written by one task; again is harmless."""
    prefix = feature_prefix(model, generation)

    def write(rows: Iterable[Row]) -> None:
        write_buckets(((row.bucket, row.field, row.record) for row in rows), prefix, settings)

    tasks = min(buckets, max(2, table.sparkSession.sparkContext.defaultParallelism))
    columns = table.select("bucket", "field", "record")
    columns.repartition(tasks, "bucket").sortWithinPartitions("bucket", "field").foreachPartition(write)


def write_snapshot(packed_url: str, snapshot_url: str) -> int:
    """Writes the packed rows, sorted by key, as one Arrow file; returns its rows."""
    table = dataset(packed_url).to_table(columns=["key", "record"], filter=pc.field("reason").is_null())
    table = pa.table([table["key"].cast(pa.uint64()), table["record"]], schema=SNAPSHOT).sort_by("key")
    filesystem, path = file_system(snapshot_url)
    staged = f"{path}.tmp"
    # One batch: a reader finds a row by its place among all keys.
    with filesystem.open(staged, "wb") as file, pa.ipc.new_file(file, SNAPSHOT) as writer:
        writer.write_table(table.combine_chunks())
    filesystem.mv(staged, path)
    return int(table.num_rows)

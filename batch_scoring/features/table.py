"""The online feature table: packed records into Redis bucket by bucket, and the snapshot file beside it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from batch_scoring.bucket_bytes import COLUMNS, slices, wire_buckets
from batch_scoring.bucket_writer import replace_buckets
from batch_scoring.files import dataset, file_system
from batch_scoring.priority import give_way
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.arrow import SNAPSHOT
from schemas.feature_table import pack_record, snapshot_key
from schemas.keys import bucket_of, feature_prefix, field_of

PACKED_SCHEMA = "key bigint, bucket int, field binary, record binary, entity string, reason string"
_PACKED = pa.schema(
    [
        # The snapshot's unsigned key; Spark has no unsigned numbers.
        pa.field("key", pa.int64()),
        pa.field("bucket", pa.int32()),
        pa.field("field", pa.binary()),
        pa.field("record", pa.binary()),
        pa.field("entity", pa.string()),
        pa.field("reason", pa.string()),
    ]
)
_WRITTEN = pa.schema([pa.field("fields", pa.int64())])


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
            key = int(np.uint64(snapshot_key(raw)).view(np.int64))
            out.append((key, bucket_of(raw, buckets), field_of(raw), record, entity, None))
    arrays = [pa.array([row[i] for row in out], field.type) for i, field in enumerate(_PACKED)]
    return pa.RecordBatch.from_arrays(arrays, schema=_PACKED)


def load_into_redis(table: DataFrame, model: str, generation: str, buckets: int, settings: BatchSettings) -> int:
    """Replaces each bucket with its rows, by one task a bucket, so that again is harmless; returns the rows."""
    prefix = feature_prefix(model, generation)

    tasks = min(buckets, max(2, table.sparkSession.sparkContext.defaultParallelism))

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = (pa.Table.from_batches([batch]).rename_columns(COLUMNS) for batch in batches)
        found = chain.from_iterable(wire_buckets(rows) for rows in slices(tables))
        give_way(settings)
        with connect(settings) as redis:
            written = replace_buckets(redis, found, prefix, settings, tasks)
        yield pa.RecordBatch.from_pydict({"fields": [written]}, _WRITTEN)

    by_bucket = table.select("bucket", "field", "record").repartition(tasks, "bucket")
    done = by_bucket.sortWithinPartitions("bucket", "field").mapInArrow(write, "fields bigint").toArrow()
    return int(pc.sum(done["fields"]).as_py() or 0)


def write_snapshot(packed_url: str, snapshot_url: str) -> int:
    """Writes the packed rows, sorted by key, as one Arrow file; returns its rows."""
    table = dataset(packed_url).to_table(columns=["key", "record"], filter=pc.field("reason").is_null())
    keys = pa.array(table["key"].to_numpy().view(np.uint64))
    table = pa.table([keys, table["record"]], schema=SNAPSHOT).sort_by("key")
    filesystem, path = file_system(snapshot_url)
    staged = f"{path}.tmp"
    # One batch: a reader finds a row by its place among all keys.
    with filesystem.open(staged, "wb") as file, pa.ipc.new_file(file, SNAPSHOT) as writer:
        writer.write_table(table.combine_chunks())
    filesystem.mv(staged, path)
    return int(table.num_rows)

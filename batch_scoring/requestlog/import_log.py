"""Brings a log that another system wrote into the request log: which entity was asked for, and when.

Imported rows have no `source`: they count when hot entities are chosen, and not in hit rates or latencies.
"""

import hashlib
import uuid
from collections.abc import Iterator
from pathlib import PurePosixPath

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from fsspec.core import url_to_fs

from schemas.arrow import REQUEST_LOG
from schemas.names import COMPACTED_FILE, IMPORTED_ID, MAX_ENTITY_BYTES, compacted_names, requests_model_path

_TIME = REQUEST_LOG.field("time").type
_BATCH_ROWS = 1 << 17


class BadLog(ValueError):
    """The file cannot be imported; the message says why and what would do."""


def import_log(source_url: str, data_url: str, model: str, time_column: str, entity_column: str) -> int:
    """Adds the rows of one Parquet or CSV file to the model's request log; doing it again changes nothing.

    Times without a zone are taken as UTC. Entities are text, digit for digit.

    Returns:
        Rows imported.

    Raises:
        BadLog: not Parquet or CSV, a column missing, a time that is none, an entity that cannot be one.
    """
    filesystem, root = url_to_fs(f"{data_url.rstrip('/')}/{requests_model_path(model)}")
    staging = f"{root}/_import-{uuid.uuid4().hex}"
    rows = 0
    try:
        batches = _batches(source_url, time_column, entity_column)
        # The name comes from the content: importing a file again replaces what it brought before.
        name = f"import-{_digest(source_url)}"
        for batch in batches:
            rows += len(batch)
            _append(filesystem, staging, name, rows, batch)
        _publish(filesystem, staging, root)
    finally:
        if filesystem.exists(staging):
            filesystem.rm(staging, recursive=True)
    return rows


def _append(filesystem: fsspec.AbstractFileSystem, staging: str, name: str, row: int, batch: pa.Table) -> None:
    """Writes the rows of each hour to a file of that hour."""
    schema = pa.schema([pa.field("date", pa.string()), pa.field("hour", pa.string())])
    ds.write_dataset(
        batch.append_column("date", pc.strftime(batch["time"], "%Y-%m-%d")).append_column(
            "hour", pc.strftime(batch["time"], "%H")
        ),
        staging,
        format="parquet",
        filesystem=filesystem,
        partitioning=ds.partitioning(schema, flavor="hive"),
        basename_template=f"{name}-{row:012d}-{{i}}.parquet",
        existing_data_behavior="overwrite_or_ignore",
        max_partitions=10_000,
    )


def _publish(filesystem: fsspec.AbstractFileSystem, staging: str, root: str) -> None:
    """Moves whole files to where readers look, but those whose rows were compacted since an earlier import."""
    for path in filesystem.find(staging):
        target = f"{root}/{PurePosixPath(path).relative_to(staging)}"
        folder, _, name = target.rpartition("/")
        filesystem.makedirs(folder, exist_ok=True)
        if name not in _compacted(filesystem, folder):
            filesystem.mv(path, target)


def _compacted(filesystem: fsspec.AbstractFileSystem, folder: str) -> frozenset[str]:
    try:
        return compacted_names(filesystem.cat_file(f"{folder}/{COMPACTED_FILE}"))
    except FileNotFoundError:
        return frozenset()


def _batches(url: str, time_column: str, entity_column: str) -> Iterator[pa.Table]:
    """The file as tables of the request log's schema."""
    for raw in _read(url, [time_column, entity_column]):
        entity = _entities(raw, entity_column)
        time = _times(raw, time_column)
        given = {
            "time": time,
            "request_id": pa.repeat(pa.scalar(IMPORTED_ID), len(raw)),
            "entity": entity,
            "status": pa.repeat(pa.scalar(200, pa.int16()), len(raw)),
            "total_us": pa.repeat(pa.scalar(0, pa.int32()), len(raw)),
            "is_caller_features": pa.repeat(pa.scalar(False), len(raw)),
        }
        columns = [given.get(field.name, pa.nulls(len(raw), field.type)) for field in REQUEST_LOG]
        yield pa.table(columns, schema=REQUEST_LOG)


def _read(url: str, columns: list[str]) -> Iterator[pa.Table]:
    filesystem, path = url_to_fs(url)
    if not filesystem.exists(path):
        raise BadLog(f"{url} does not exist")
    is_csv = path.endswith((".csv", ".csv.gz"))
    try:
        if is_csv:
            options = pacsv.ConvertOptions(
                include_columns=columns, column_types={columns[1]: pa.string()}, strings_can_be_null=False
            )
            with filesystem.open(path, compression="infer") as file:
                for batch in pacsv.open_csv(file, convert_options=options):
                    yield pa.table(batch)
        else:
            with filesystem.open(path) as file:
                for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS, columns=columns):
                    yield _with_columns(pa.table(batch), columns, url)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise BadLog(f"{url} cannot be read as {'CSV' if is_csv else 'Parquet'}: {error}") from None


def _with_columns(table: pa.Table, columns: list[str], url: str) -> pa.Table:
    if missing := set(columns) - set(table.column_names):
        raise BadLog(
            f"{url} has no column {', '.join(sorted(missing))}: name them by --time-column, --entity-column"
        )
    return table


def _entities(raw: pa.Table, name: str) -> pa.ChunkedArray:
    column = raw[name]
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise BadLog(f"column {name} is {column.type}, not text: ids are text, since numbers lose leading zeros")
    lengths = pc.binary_length(column)
    bad = pc.or_kleene(pc.less(lengths, 1), pc.greater(lengths, MAX_ENTITY_BYTES))
    if column.null_count or pc.any(bad).as_py():
        raise BadLog(f"column {name} holds an entity that is null, empty or over {MAX_ENTITY_BYTES} bytes")
    return column.cast(pa.string())


def _times(raw: pa.Table, name: str) -> pa.ChunkedArray:
    column = raw[name]
    try:
        if pa.types.is_timestamp(column.type) and column.type.tz is None:
            column = pc.assume_timezone(column.cast(pa.timestamp("us")), "UTC")
        time = column.cast(_TIME)
    except pa.ArrowInvalid as error:
        raise BadLog(f"column {name} is no time: {error}") from None
    if time.null_count:
        raise BadLog(f"column {name} holds a null")
    return time


def _digest(url: str) -> str:
    digest = hashlib.sha256()
    with fsspec.open(url) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()[:16]

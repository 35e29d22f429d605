"""The sampled rows of request-log files: those with inputs or outputs, of any version of the log's schema.

Files are read by pyarrow in Spark's tasks, not by Spark: of a hundred rows one is wanted, columns may have other
types or be missing in older files, and a damaged file is to be named, not to end the job.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from batch_scoring.files import file_system
from schemas.arrow import REQUEST_LOG
from schemas.drift import HITS, TAIL

# Stale and default answers are neither: what they were computed from is not what was asked for now.
POPULATION_OF = {"precomputed": HITS, "cached": HITS, "live": TAIL}
WINDOW, BEFORE = "window", "before"
SAMPLED_SCHEMA = (
    "period string, population string, version string, generation string, entity string, inputs string,"
    " outputs array<float>, error string"
)
_COLUMNS = ("time", "source", "version", "generation", "entity", "inputs", "outputs")
_SAMPLED = pa.schema(
    [
        pa.field("period", pa.string()),
        pa.field("population", pa.string()),
        *(pa.field(name, pa.string()) for name in ("version", "generation", "entity", "inputs")),
        pa.field("outputs", pa.list_(pa.float32())),
        pa.field("error", pa.string()),
    ]
)
_BATCH_ROWS = 1 << 16
# The error of a file that was there when the log was listed: compaction has put its rows elsewhere since.
GONE = "gone"


@dataclass(frozen=True, slots=True)
class Period:
    """[begin, end) of the log; `name` is WINDOW or BEFORE."""

    name: str
    begin: datetime
    end: datetime


def read_sampled(paths: Iterable[pa.RecordBatch], periods: Sequence[Period]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: batches of file addresses (`path`) to the sampled rows of the periods.

    A file that cannot be read gives one row, with its address as `entity` and an `error`.
    """
    for batch in paths:
        for path in batch.column("path").to_pylist():
            yield from _read_file(path, periods)


def _read_file(path: str, periods: Sequence[Period]) -> Iterator[pa.RecordBatch]:
    filesystem, place = file_system(path)
    found: list[pa.RecordBatch] = []
    try:
        with filesystem.open(place, "rb") as file:
            parquet = pq.ParquetFile(file)
            names = parquet.schema_arrow.names
            if not {"inputs", "outputs"} & set(names):
                return
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=[name for name in _COLUMNS if name in names]):
                found += _sampled(batch, periods)
    except FileNotFoundError:
        yield _one_row(entity=path, error=GONE)
        return
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        yield _one_row(entity=path, error=f"damaged: {error}")
        return
    # Only now: a file that is damaged further on is left out as a whole.
    yield from found


def _sampled(batch: pa.RecordBatch, periods: Sequence[Period]) -> Iterator[pa.RecordBatch]:
    table = pa.table({field.name: _column(batch, field) for field in REQUEST_LOG if field.name in _COLUMNS})
    table = table.filter(pc.or_(pc.is_valid(table["inputs"]), pc.is_valid(table["outputs"])))
    for source, population in POPULATION_OF.items():
        answered = table.filter(pc.fill_null(pc.equal(table["source"], source), False))
        for period in periods:
            begin, end = (pa.scalar(time, REQUEST_LOG.field("time").type) for time in (period.begin, period.end))
            within = pc.and_(pc.greater_equal(answered["time"], begin), pc.less(answered["time"], end))
            rows = answered.filter(pc.fill_null(within, False))
            if rows.num_rows:
                labels = {"period": period.name, "population": population, "error": None}
                yield from _labelled(rows, labels).to_batches()


def _column(batch: pa.RecordBatch, field: Any) -> Any:
    """The column in the declared type; nulls where the file has none, or one that cannot be cast."""
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(field.name)
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    try:
        # Nanoseconds lose their last digits, and doubles become floats.
        return column.cast(field.type, safe=False)
    except pa.ArrowException:
        return pa.nulls(batch.num_rows, field.type)


def _labelled(rows: pa.Table, labels: dict[str, str | None]) -> pa.Table:
    columns = [
        pa.repeat(pa.scalar(labels[field.name], pa.string()), rows.num_rows)
        if field.name in labels
        else rows[field.name].cast(field.type)
        for field in _SAMPLED
    ]
    return pa.table(columns, schema=_SAMPLED)


def _one_row(**values: str) -> pa.RecordBatch:
    columns = [pa.array([values.get(field.name)], field.type) for field in _SAMPLED]
    return pa.RecordBatch.from_arrays(columns, schema=_SAMPLED)

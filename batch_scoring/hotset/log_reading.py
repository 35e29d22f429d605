"""Anybody's request log, Parquet or CSV, as a trace. Ids stay the text they are; rows set aside are counted."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from batch_scoring.hotset.columns import Columns, epoch_divisor, is_text_type
from batch_scoring.hotset.trace import BadLog, Floats, Trace

_CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")
_BYTES = 256


@dataclass(frozen=True)
class LogSource:
    """Files of one kind. `types` of the first one's columns; of a CSV file all are text."""

    files: tuple[Path, ...]
    is_csv: bool
    types: Mapping[str, pa.DataType]

    @property
    def bytes_on_disk(self) -> int:
        return sum(path.stat().st_size for path in self.files)

    @property
    def separator(self) -> str:
        return "\t" if ".tsv" in self.files[0].name else ","


@dataclass
class Read:
    """A log in memory. `aside`: rows that were set aside, by reason."""

    trace: Trace
    rows: int
    aside: Counter[str] = field(default_factory=Counter)


def log_source(log: str) -> LogSource:
    """The files of a log: one, or all below a folder. Raises BadLog in words."""
    path = Path(log)
    if not path.exists():
        raise BadLog(f"{log} does not exist")
    files = sorted(_files(path)) if path.is_dir() else [path]
    if not files:
        raise BadLog(f"{log} holds no Parquet or CSV file")
    is_csv = files[0].name.lower().endswith(_CSV_SUFFIXES)
    if any(one.name.lower().endswith(_CSV_SUFFIXES) != is_csv for one in files):
        raise BadLog(f"{log} holds both Parquet and CSV files: give one kind")
    try:
        types = _csv_types(files[0]) if is_csv else _parquet_types(files[0])
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadLog(f"{files[0]} cannot be read: {error}") from None
    if not types:
        raise BadLog(f"{files[0]} has no columns")
    return LogSource(tuple(files), is_csv, types)


def read_log(source: LogSource, columns: Columns, cost: str | None = None) -> Read:
    """The whole log in memory; `cost` names a column with what scoring a row costs. Raises BadLog."""
    wanted = [name for name in (columns.entity, columns.time or columns.order, cost, columns.id) if name]
    try:
        tables = [_table(source, path, wanted) for path in source.files]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise BadLog(f"the log cannot be read: {error}") from None
    aside: Counter[str] = Counter()
    entities = pa.concat_arrays([chunk for table in tables for chunk in _texts(table[columns.entity])])
    is_kept = np.asarray(pc.is_valid(entities))
    lengths = np.asarray(pc.fill_null(pc.binary_length(entities), 1))
    aside["no entity"] = int((~is_kept | (lengths == 0)).sum())
    aside["entity over 256 bytes"] = int((lengths > _BYTES).sum())
    is_kept = is_kept & (lengths > 0) & (lengths <= _BYTES)
    times_s = None
    if moment := columns.time or columns.order:
        times_s = _seconds([table[moment] for table in tables], moment, is_time=bool(columns.time))
        aside[f"no {'time' if columns.time else 'order'}"] = int((is_kept & ~np.isfinite(times_s)).sum())
        is_kept &= np.isfinite(times_s)
    if columns.id:
        ids = pa.concat_arrays([chunk for table in tables for chunk in _texts(table[columns.id], "id")])
        is_copy = _copies(entities, times_s, ids, is_kept)
        aside["duplicated"] = int(is_copy.sum())
        is_kept &= ~is_copy
    coded = entities.filter(pa.array(is_kept)).dictionary_encode()
    if not len(coded):
        raise BadLog("no row of the log has an entity and a time that can be read")
    codes = coded.indices.to_numpy().astype(np.int64)
    costs = _mean_cost(tables, cost, is_kept, codes, len(coded.dictionary)) if cost else None
    trace = _trace(
        codes, coded.dictionary.to_pylist(), None if times_s is None else times_s[is_kept], columns, costs
    )
    return Read(trace, len(is_kept), +aside)


def _trace(
    codes: np.ndarray, names: list[str], moments: Floats | None, columns: Columns, costs: Floats | None
) -> Trace:
    if columns.order and moments is not None:
        codes, moments = codes[np.argsort(moments, kind="stable")], None
    return Trace.of(codes, names, moments, costs)


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        name = path.name.lower()
        is_hidden = any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
        if path.is_file() and not is_hidden and name.endswith((".parquet", ".pq", *_CSV_SUFFIXES)):
            yield path


def _csv_types(path: Path) -> dict[str, pa.DataType]:
    separator = "\t" if ".tsv" in path.name else ","
    with pa_csv.open_csv(path, parse_options=pa_csv.ParseOptions(delimiter=separator)) as reader:
        return dict.fromkeys(reader.schema.names, pa.string())


def _parquet_types(path: Path) -> dict[str, pa.DataType]:
    schema = pq.read_schema(path)
    return {name: schema.field(name).type for name in schema.names}


def _table(source: LogSource, path: Path, wanted: list[str]) -> pa.Table:
    if not source.is_csv:
        return pq.ParquetFile(path).read(columns=wanted)
    # All as text, and no word is a null: `NA`, `007` and `1e5` are ids.
    convert = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, strings_can_be_null=False
    )
    parse = pa_csv.ParseOptions(delimiter=source.separator, newlines_in_values=True)
    return pa_csv.read_csv(path, convert_options=convert, parse_options=parse)


def _copies(entities: pa.Array, moments: Floats | None, ids: pa.Array, is_kept: np.ndarray) -> np.ndarray:
    """(rows,) of rows with an id, those that have another's id, entity and moment; the first of them is none."""
    rows = np.flatnonzero(is_kept & (np.asarray(pc.fill_null(pc.binary_length(ids), 0)) > 0))
    at = pa.array(rows)
    columns = {"entity": entities.take(at), "id": ids.take(at), "row": at}
    columns |= {} if moments is None else {"moment": pa.array(moments[rows])}
    keys = [name for name in columns if name != "row"]
    first = pa.table(columns).group_by(keys).aggregate([("row", "min")])["row_min"].to_numpy()
    is_copy = np.zeros(len(is_kept), np.bool_)
    is_copy[rows] = True
    is_copy[first] = False
    return is_copy


def _texts(column: pa.ChunkedArray, what: str = "entity") -> list[pa.Array]:
    """Digit for digit: an integer is its digits, never a floating number's. Raises BadLog for other types."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (is_text_type(kind) or pa.types.is_integer(kind) or pa.types.is_binary(kind)):
        raise BadLog(f"the {what}'s column is {kind}: it must be text or whole numbers")
    # Not cast from the dictionary straight to text: pyarrow does not for all kinds of values.
    return [chunk.cast(kind).cast(pa.string()) for chunk in column.chunks] or [pa.array([], pa.string())]


def _seconds(chunked: list[pa.ChunkedArray], name: str, is_time: bool) -> Floats:
    """(rows,) seconds, or places in an order; NaN where there is none."""
    parts = [part for column in chunked for part in column.chunks]
    kind = parts[0].type if parts else pa.int64()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        as_us = [part.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=False) for part in parts]
        return _floats([part.cast(pa.int64()) for part in as_us]) / 1e6
    if is_text_type(kind):
        numbers = _floats([_parsed(part.cast(pa.string())) for part in parts])
        if np.isfinite(numbers).any():
            return _of_numbers(numbers, is_time)
        return _floats([_moments(part.cast(pa.string())) for part in parts]) / 1e6
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _of_numbers(_floats(parts), is_time)
    raise BadLog(f"column {name} is {kind}: neither times nor numbers")


def _of_numbers(numbers: Floats, is_time: bool) -> Floats:
    if not is_time or not np.isfinite(numbers).any():
        return numbers
    # Numbers that cannot be of an epoch are seconds from a beginning of their own.
    return numbers / (epoch_divisor(float(np.nanmax(np.abs(numbers)))) or 1.0)


def _parsed(texts: pa.Array) -> pa.Array:
    """Numbers, null where a text is none."""
    trimmed = pc.utf8_trim_whitespace(texts)
    is_number = pc.match_substring_regex(trimmed, r"^[+-]?[0-9]+(\.[0-9]+)?$")
    return pc.if_else(is_number, trimmed, pa.scalar(None, pa.string())).cast(pa.float64())


def _moments(texts: pa.Array) -> pa.Array:
    """Microseconds since 1970 of ISO 8601 texts, UTC where they name no zone; null where a text is none."""
    import pandas as pd

    found = pd.to_datetime(pd.Series(texts.to_pylist()), errors="coerce", utc=True, format="ISO8601")
    return pa.array(found.dt.as_unit("us"), pa.timestamp("us", tz="UTC")).cast(pa.int64())


def _floats(parts: list[pa.Array]) -> Floats:
    arrays = [np.asarray(part.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)) for part in parts]
    return np.concatenate(arrays) if arrays else np.empty(0)


def _mean_cost(tables: list[pa.Table], name: str, is_kept: np.ndarray, codes: np.ndarray, entities: int) -> Floats:
    """(m,) each entity's mean, as a multiple of all requests'; who has none costs the usual."""
    given = _floats([_number(part) for table in tables for part in table[name].chunks])[is_kept]
    is_known = np.isfinite(given) & (given > 0)
    if not is_known.any():
        raise BadLog(f"column {name} holds no cost above 0")
    sums = np.bincount(codes[is_known], weights=given[is_known], minlength=entities)
    counts = np.bincount(codes[is_known], minlength=entities)
    usual = float(given[is_known].mean())
    means: Floats = np.where(counts > 0, sums / np.maximum(counts, 1), usual) / usual
    return means


def _number(part: pa.Array) -> pa.Array:
    return _parsed(part.cast(pa.string())) if is_text_type(part.type) else part

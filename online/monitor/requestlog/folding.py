"""Rows of the request log counted by a DuckDB that holds nothing itself."""

from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from online.monitor.requestlog import sql
from online.monitor.requestlog.counts import BINS, MEASURED
from online.monitor.requestlog.files import LogFolder
from online.monitor.requestlog.kinds import SOURCES, Kind, Kinds, known_source
from online.monitor.requestlog.rows import UNDATED, Latencies, Part, Requests, Small

Latest = tuple[object, ...]
_KIND = ("source", "version", "reason", "code", "status")


class Folding:
    """Not thread-safe, but for cursors of its connection. Close it when done."""

    def __init__(self, folder: LogFolder, threads: int, memory_mb: int) -> None:
        self.kinds = Kinds()
        self._connection = _connect(folder, threads, memory_mb)

    def interrupt(self) -> None:
        """Ends a query that is running; any thread may call it."""
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()

    def files(self, parts: Mapping[str, int], slot_minutes: int) -> dict[int, Part]:
        """By part, which each path is given. Raises duckdb.Error, pa.ArrowInvalid or OSError for all together."""
        self._show(parts)
        return self._fold(sorted(set(parts.values())), slot_minutes)

    def stream(self, rows: pa.Table, slot_minutes: int) -> Part:
        """Raises duckdb.Error for rows of another schema than ours can read."""
        self._connection.register("stream_rows", sql.without_outputs(rows))
        self._connection.execute(sql.STREAM_VIEW)
        return self._fold([0], slot_minutes)[0]

    def latest_of_files(self, paths: Sequence[str], limit: int) -> list[Latest]:
        """The newest rows: time in microseconds, then `sql.LATEST_COLUMNS`. Raises duckdb.Error."""
        self._show(dict.fromkeys(paths, 0))
        return self._latest(limit)

    def latest_of_stream(self, rows: pa.Table, limit: int) -> list[Latest]:
        self._connection.register("stream_rows", sql.without_outputs(rows))
        self._connection.execute(sql.STREAM_VIEW)
        return self._latest(limit)

    def _latest(self, limit: int) -> list[Latest]:
        found: list[Latest] = self._connection.execute(sql.LATEST, {"limit": limit}).fetchall()
        return found

    def _show(self, parts: Mapping[str, int]) -> None:
        """Makes `chunk` the rows of these files."""
        names = pa.table({"filename": pa.array(parts, pa.string()), "part": pa.array(parts.values(), pa.int32())})
        self._connection.register("chunk_files", names)
        self._connection.execute(sql.files_view(list(parts)))

    def _fold(self, parts: Sequence[int], slot_minutes: int) -> dict[int, Part]:
        requests = self._connection.sql(sql.FOLD_MINUTES).to_arrow_table()
        latencies = self._connection.sql(sql.FOLD_LATENCIES, params={"slot": slot_minutes}).to_arrow_table()
        counted, timed = _requests(requests, self.kinds), _latencies(latencies)
        part_of_counted, part_of_timed = _whole(requests["part"]), _whole(latencies["part"])
        return {
            part: Part(counted.where(part_of_counted == part), timed.where(part_of_timed == part))
            for part in parts
        }


def _requests(table: pa.Table, kinds: Kinds) -> Requests:
    minute = table["minute"].fill_null(UNDATED).to_numpy().astype(np.int32)
    newest = table["newest_us"].fill_null(0).to_numpy()
    codes, values = zip(*(_codes(table[name]) for name in _KIND), strict=True)
    rows, inverse = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
    numbers = [
        kinds.number(Kind(*(values[place][code] for place, code in enumerate(row)))) for row in rows.tolist()
    ]
    kind = np.array(numbers, dtype=np.int32)[inverse.reshape(-1)]
    return Requests(minute, kind, table["requests"].to_numpy().astype(np.int64), newest.astype(np.int64))


def _latencies(table: pa.Table) -> Latencies:
    source_codes, sources = _codes(table["source"])
    stage_codes, stages = _codes(table["stage"])
    source = np.array([SOURCES.index(known_source(str(name))) for name in sources], dtype=np.int32)[source_codes]
    stage = np.array([MEASURED.index(str(name).removesuffix("_us")) for name in stages], dtype=np.int32)[
        stage_codes
    ]
    cell = (source * len(MEASURED) + stage) * BINS + table["bin"].to_numpy()
    minute, answers = table["minute"].to_numpy(), table["requests"].to_numpy()
    return Latencies(minute.astype(np.int32), cell.astype(np.int32), answers.astype(np.int32))


def _codes(column: pa.ChunkedArray) -> tuple[Small, list[object]]:
    """(n,) numbers of a column's values, and the values; null is one of them."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks) if encoded.num_chunks else encoded.combine_chunks()
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def _whole(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = column.to_numpy()
    return found


def _connect(folder: LogFolder, threads: int, memory_mb: int) -> duckdb.DuckDBPyConnection:
    """An in-memory database that fetches nothing from the internet and writes nothing to the disk."""
    connection = duckdb.connect(":memory:", config={"threads": threads, "memory_limit": f"{memory_mb}MB"})
    for setting in (
        "autoinstall_known_extensions = false",
        "temp_directory = ''",
        "TimeZone = 'UTC'",
        "preserve_insertion_order = false",
    ):
        connection.execute(f"SET {setting}")
    if not folder.is_local:
        connection.register_filesystem(folder.fs)
    connection.register("template_rows", sql.without_outputs(sql.EMPTY))
    connection.execute("CREATE TABLE template AS SELECT * FROM template_rows")
    return connection

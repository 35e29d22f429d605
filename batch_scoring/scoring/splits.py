"""Feature files to splits, and a split to batches that are bounded by rows and by bytes."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.files import file_system
from batch_scoring.scoring.task import RowGroup, Split

# Feature rows of a split, as far as row groups allow: at most seconds of work, so that little is lost with a task,
# and not so few that starting it takes longer.
_MOST_ROWS = 50_000
_LEAST_ROWS = 1_000
# So that no core waits long for the last split of another.
_SPLITS_PER_CORE = 4
# Of each column that is being read, whatever the size of a row group.
_BUFFER_BYTES = 128 << 10
_PROBE_ROWS = 16


def plan_splits(features_url: str, cores: int) -> list[Split]:
    """Row groups side by side until they make a split, the largest split first."""
    found = list(_row_groups(features_url))
    fair = -(-sum(rows for _, _, rows in found) // (_SPLITS_PER_CORE * cores))
    most = min(_MOST_ROWS, max(_LEAST_ROWS, fair))
    splits, groups, rows = list[Split](), list[RowGroup](), 0
    for url, number, count in found:
        if groups and rows + count > most:
            splits.append(Split(rows, tuple(groups)))
            groups, rows = [], 0
        groups.append(RowGroup(url, number))
        rows += count
    if groups:
        splits.append(Split(rows, tuple(groups)))
    return sorted(splits, reverse=True)


def _row_groups(features_url: str) -> Iterator[tuple[str, int, int]]:
    """URL, number and rows of each row group that has any."""
    filesystem, folder = file_system(features_url)
    for path in sorted(path for path in filesystem.find(folder) if path.endswith(".parquet")):
        with filesystem.open(path, "rb") as file:
            footer = pq.read_metadata(file)
        for number in range(footer.num_row_groups):
            if rows := footer.row_group(number).num_rows:
                yield str(filesystem.unstrip_protocol(path)), number, rows


def read_split(split: Split, columns: Sequence[str], most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The split's rows in batches of at most `most_rows`, and of `most_bytes` as far as its first rows tell.

    In this thread alone: Spark runs a task for each core.
    """
    for url, number in split.groups:
        filesystem, path = file_system(url)
        with (
            filesystem.open(path, "rb") as source,
            pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
        ):
            rows = min(most_rows, max(1, most_bytes // _row_bytes(file, number, columns)))
            yield from file.iter_batches(rows, [number], list(columns), use_threads=False)


def _row_bytes(file: pq.ParquetFile, number: int, columns: Sequence[str]) -> int:
    """By the first rows as they are in memory: a footer counts a text that is repeated once."""
    first = next(file.iter_batches(_PROBE_ROWS, [number], list(columns), use_threads=False))
    return -(-first.nbytes // first.num_rows) or 1

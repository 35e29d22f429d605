"""A large request log in the real layout, made in seconds: a seeded block of plausible rows, cut and dated anew.

Half of the rows are of the last 24 hours, in a file every five minutes from each of two workers, as rotation
leaves them; half are of the four weeks before, a file an hour, as compaction leaves them.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.arrow import REQUEST_LOG
from schemas.names import stream_name
from tests.support.request_log import hour_folder, traffic

BLOCK_ROWS = 200_000
DAYS = 28
WORKERS = 2
_FILE_MINUTES = 5
_HOUR = timedelta(hours=1)


def write_large_log(root: Path, model: str, rows: int, end: datetime, seed: int = 7) -> int:
    """Writes about `rows` rows that end at `end` below `root`; returns how many."""
    block = traffic(end - _HOUR, end, BLOCK_ROWS, seed).drop_columns("time")
    pieces = list(_pieces(end, rows))

    def write(number_and_piece: tuple[int, tuple[datetime, timedelta, int]]) -> int:
        number, (start, span, count) = number_and_piece
        random = np.random.default_rng([seed, number])
        times = np.sort(random.integers(0, span // timedelta(microseconds=1), count))
        stamps = pa.array(times + int(start.timestamp() * 1e6), pa.timestamp("us", tz="UTC"))
        taken = _rows(block, int(random.integers(BLOCK_ROWS)), count)
        table = taken.add_column(0, REQUEST_LOG.field("time"), stamps)
        pq.write_table(table, hour_folder(root, model, start) / f"{stream_name(model, str(number))}.parquet")
        return count

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(write, enumerate(pieces)))


def _pieces(end: datetime, rows: int) -> Iterator[tuple[datetime, timedelta, int]]:
    """(start, span, rows) of each file; none crosses an hour."""
    day = (end - timedelta(hours=24)).replace(minute=0, second=0, microsecond=0)
    step = timedelta(minutes=_FILE_MINUTES)
    starts = [day + step * number for number in range((end - day) // step)]
    for start in starts:
        for _ in range(WORKERS):
            yield start, step, max(1, rows // 2 // (len(starts) * WORKERS))
    hours = DAYS * 24 - 24
    for number in range(1, hours + 1):
        yield day - _HOUR * number, _HOUR, max(1, rows // 2 // hours)


def _rows(block: pa.Table, first: int, count: int) -> pa.Table:
    """So many rows of the block from one on, going round."""
    parts, left = [], count
    while left > 0:
        part = block.slice(first, left)
        parts.append(part)
        left, first = left - part.num_rows, 0
    return pa.concat_tables(parts)


def now() -> datetime:
    """On the grid of rotation, so that the last file is whole."""
    found = datetime.now(UTC)
    return found.replace(minute=found.minute // _FILE_MINUTES * _FILE_MINUTES, second=0, microsecond=0)

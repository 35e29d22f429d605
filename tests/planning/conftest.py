"""The files that a plan is made from: a profile as the product's command writes it, and request logs."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.capacity import BatchTime
from tests.support.request_log import log_table, utc, write_log

T4 = BatchTime(6.0, 1.2)
START = utc("2026-11-28 14:00")


def write_profile(path: Path, batch_ms: dict[int, float], **more: object) -> Path:
    measured = [{"rows": rows, "batch_ms": ms, "rows_per_s": 1e3 * rows / ms} for rows, ms in batch_ms.items()]
    document = {"model": "delay", "version": "7", "device": "cuda:0", "measured": measured, **more}
    path.write_bytes(orjson.dumps(document))
    return path


def rows_in_minute(minute: datetime, sources: dict[str | None, int], **columns: object) -> list[dict[str, object]]:
    """Requests spread over a minute; entities `hot0` … for what was precomputed, `cold0` … for the rest."""
    total, rows = sum(sources.values()), []
    for source, count in sources.items():
        for number in range(count):
            at = minute + timedelta(seconds=59 * len(rows) / total)
            name = "hot" if source == "precomputed" else "cold"
            rows.append({"time": at, "source": source, "entity": f"{name}{number % 10}", **columns})
    return rows


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = [1, 2, 4, 8, 16, 32, 64]
    return write_profile(tmp_path_factory.mktemp("profile") / "p.json", {b: T4.batch_ms(b) for b in sizes})


@pytest.fixture(scope="session")
def own_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two busy minutes and a quiet hour after them: 1,200 requests with 200 misses, then 900 with 400."""
    root = tmp_path_factory.mktemp("own")
    minutes = [START + timedelta(minutes=at) for at in range(2)]
    live = {"total_us": 21_000, "queue_us": 4_000, "batch_us": 1_000, "execute_us": 14_000}
    rows = [
        *rows_in_minute(minutes[0], {"precomputed": 1000, "cached": 80}, total_us=1_500),
        *rows_in_minute(minutes[0], {"live": 120}, **live),
        *rows_in_minute(minutes[1], {"precomputed": 500, "cached": 100}, total_us=1_500),
        *rows_in_minute(minutes[1], {"live": 295}, **live),
        *rows_in_minute(minutes[1], {None: 5}, status=503, code="overloaded"),
        # Refused callers' requests need no replica, however many there are.
        *rows_in_minute(minutes[1], {None: 700}, status=404, code="unknown_entity"),
        # What another system answered tells nothing of ours.
        *rows_in_minute(minutes[0], {None: 40}),
        *rows_in_minute(START + timedelta(minutes=59), {"precomputed": 1}, total_us=1_500),
    ]
    write_log(root, "delay", log_table(rows))
    return root / "requests"


@pytest.fixture(scope="session")
def imported_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 requests in a minute that another system answered, 480 of them for ten entities."""
    root = tmp_path_factory.mktemp("imported")
    rows = rows_in_minute(START, {None: 600}, total_us=0)
    for number, row in enumerate(rows):
        row["entity"] = f"hot{number % 10}" if number % 5 else f"cold{number}"
    write_log(root, "delay", log_table(rows))
    return root / "requests"


@pytest.fixture(scope="session")
def hot_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two files, as the select step leaves it."""
    folder = tmp_path_factory.mktemp("hotset")
    for part in range(2):
        names = [f"hot{number}" for number in range(5 * part, 5 * part + 5)]
        pq.write_table(pa.table({"entity": names, "weight": np.ones(5)}), folder / f"part-{part}.parquet")
    return folder

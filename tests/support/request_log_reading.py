"""The API's request log as a reader elsewhere sees it: unfinished streams, and Parquet with its partitions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.api_process import ApiProcess, wait_for

Row = dict[str, Any]


def stream_rows(path: Path) -> list[Row]:
    rows: list[Row] = []
    try:
        with pa.OSFile(str(path)) as file:
            reader = pa.ipc.open_stream(file)
            while True:
                rows += reader.read_next_batch().to_pylist()
    except (StopIteration, OSError, pa.ArrowInvalid):
        return rows


def parquet_rows(data: Path, model: str) -> list[Row]:
    rows: list[Row] = []
    for path in sorted(data.glob(f"requests/model={model}/date=*/hour=*/*.parquet")):
        rows += pq.ParquetFile(path).read().to_pylist()
    return rows


def log_rows(api: ApiProcess, model: str) -> list[Row]:
    streams = [row for path in (api.state / "log").glob(f"{model}~*.arrows") for row in stream_rows(path)]
    return streams + parquet_rows(api.data, model)


def read_log(
    api: ApiProcess, model: str, enough: Callable[[list[Row]], object], timeout_s: float = 8.0
) -> list[Row]:
    """The rows, once there are enough: the log is a second or two behind."""

    def rows() -> list[Row]:
        found = log_rows(api, model)
        return found if enough(found) else []

    return list(wait_for(rows, timeout_s, "rows of the request log"))

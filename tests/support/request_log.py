"""Request logs for tests: real Parquet and Arrow files of the declared schema, where the API writes them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.arrow import REQUEST_LOG
from schemas.names import STAGES, requests_hour_path

_DEFAULTS: Mapping[str, object] = {
    "request_id": "r",
    "entity": "e",
    "version": "7",
    "source": "precomputed",
    "status": 200,
    "total_us": 1000,
    "is_caller_features": False,
}


def log_table(rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """Rows with the columns given, the required others filled in."""
    complete = [{name: row.get(name, _DEFAULTS.get(name)) for name in REQUEST_LOG.names} for row in rows]
    return pa.Table.from_pylist(complete, schema=REQUEST_LOG)


def hour_folder(root: Path, model: str, moment: datetime) -> Path:
    folder = root / requests_hour_path(model, moment)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_log(root: Path, model: str, table: pa.Table, name: str = "a") -> list[Path]:
    """One file an hour, `NAME.parquet`, in the hour's partition."""
    hours = np.array([moment.replace(minute=0, second=0, microsecond=0) for moment in table["time"].to_pylist()])
    written = []
    for hour in sorted(set(hours)):
        path = hour_folder(root, model, hour) / f"{name}.parquet"
        pq.write_table(table.filter(pa.array(hours == hour)), path)
        written.append(path)
    return written


def traffic(start: datetime, end: datetime, rows: int, seed: int = 0) -> pa.Table:
    """Plausible answers between two moments: a tail of about a fifth, a few errors, stages that add up."""
    random = np.random.default_rng(seed)
    span_us = int((end - start) / timedelta(microseconds=1))
    times = np.sort(random.integers(0, span_us, rows)) + int(start.timestamp() * 1e6)
    shares = {"precomputed": 0.74, "cached": 0.05, "live": 0.195, "stale": 0.005, None: 0.01}
    sources = random.choice(list(shares), rows, p=list(shares.values()))
    is_live = sources == "live"
    total = np.where(is_live, random.lognormal(9.7, 0.4, rows), random.lognormal(7.1, 0.35, rows)).astype(np.int32)
    missed = np.isin(sources, ["cached", "live", "stale"])
    reasons = random.choice(["not_selected", "caller_features", "expired"], rows, p=[0.9, 0.06, 0.04])
    failed = sources == None  # noqa: E711 - elementwise
    codes = random.choice(["overloaded", "unknown_entity"], rows)
    columns: dict[str, object] = {
        "time": pa.array(times, pa.timestamp("us", tz="UTC")),
        "request_id": [f"{number:032x}" for number in random.integers(0, 2**62, rows)],
        "entity": [f"UA{number}-EWR-IAH" for number in np.minimum(random.zipf(1.3, rows), 12_075)],
        "version": np.where(failed, None, "7"),
        "generation": np.where(sources == "precomputed", "20261128T0200Z-1", None),
        "source": sources,
        "miss_reason": np.where(missed, reasons, None),
        "status": np.where(failed, np.where(codes == "overloaded", 503, 404), 200).astype(np.int16),
        "code": np.where(failed, codes, None),
        "label": random.choice(["late", "on time"], rows),
        "confidence": random.random(rows, dtype=np.float32),
        "age_ms": pa.array(_ages_ms(times), mask=sources != "precomputed"),
        "total_us": total,
        "is_caller_features": np.zeros(rows, bool),
    }
    for stage, part in zip(STAGES, (0.05, 0.3, 0.1, 0.2, 0.1, 0.2, 0.05), strict=True):
        absent = np.zeros(rows, bool) if stage in ("route", "lookup", "post") else ~is_live
        columns[f"{stage}_us"] = pa.array((total * part).astype(np.int32), mask=absent)
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in REQUEST_LOG
    ]
    return pa.Table.from_arrays(arrays, schema=REQUEST_LOG)


def utc(text: str) -> datetime:
    """`2026-11-29 14:00` and the like, as UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _ages_ms(times_us: np.ndarray) -> np.ndarray:
    """Of generations computed at 02:00 UTC and live from 03:00 on."""
    return (times_us // 1000 - 3 * 3_600_000) % 86_400_000 + 3_600_000

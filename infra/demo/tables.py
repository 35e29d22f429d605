"""Writes the demo's source tables: schedule, arrivals, weather, with all dates shifted so that the day is today.

`python -m infra.demo.tables --data DATA_URL --today 2026-11-29`. Times are UTC. Only weeks are added to the times
of 2013, so weekdays hold; local hours are columns, since the clock changes of another year fall on other days.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import date

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from infra.demo import source
from schemas.names import TABLES

_TIME = pa.timestamp("us", tz="UTC")
_WHAT = {"entity": pa.string(), "carrier": pa.string(), "origin": pa.string(), "dest": pa.string()}

SCHEDULE = pa.schema(
    {
        **_WHAT,
        "distance": pa.float32(),
        "departs_at": _TIME,
        "arrives_at": _TIME,
        "local_hour": pa.int32(),
        "weekday": pa.int32(),
        "seats": pa.float32(),
        "plane_year": pa.float32(),
        "engine": pa.string(),
        "manufacturer": pa.string(),
        "plane_legs": pa.float32(),
        "plane_slack": pa.float32(),
    }
)
ARRIVALS = pa.schema({**_WHAT, "local_hour": pa.int32(), "landed_at": _TIME, "arr_delay": pa.float32()})
WEATHER = pa.schema(
    {
        "origin": pa.string(),
        "hour_at": _TIME,
        **dict.fromkeys(
            ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"),
            pa.float32(),
        ),
    }
)
# Small enough that a Spark of a few cores reads one file in parallel.
_ROW_GROUP = 50_000
_LOG = logging.getLogger(__name__)


def write_tables(data_url: str, today: date) -> None:
    """Replaces `tables/{schedule,arrivals,weather}` under the data root: one file each."""
    flights = source.flights()
    frames = {
        "schedule": (flights, SCHEDULE),
        "arrivals": (flights[flights["landed_at"].notna()], ARRIVALS),
        "weather": (source.weather(), WEATHER),
    }
    for name, (frame, schema) in frames.items():
        table = _shifted(frame, schema, today)
        target = f"{data_url.rstrip('/')}/{TABLES}/{name}/part-0.parquet"
        with fsspec.open(target, "wb", auto_mkdir=True) as file:
            pq.write_table(table, file, row_group_size=_ROW_GROUP)
        _LOG.info("%s: %d rows", name, table.num_rows)


def _shifted(frame: pd.DataFrame, schema: pa.Schema, today: date) -> pa.Table:
    moved = frame.copy()
    for field in schema:
        if field.type == _TIME:
            moved[field.name] = moved[field.name] + pd.Timedelta(source.shift_to(today))
    return pa.Table.from_pandas(moved[schema.names], schema=schema, preserve_index=False)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.demo.tables", description=__doc__)
    parser.add_argument("--data", required=True, help="data root: a folder or fsspec URL")
    parser.add_argument("--today", required=True, type=date.fromisoformat, help="the day that is replayed")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    write_tables(arguments.data, arguments.today)
    return 0


if __name__ == "__main__":
    sys.exit(main())

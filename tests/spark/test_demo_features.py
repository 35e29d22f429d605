"""The demo's feature query: nothing of it knows what happens after its moment."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from batch_scoring.features.query import feature_rows
from infra.demo import dataset, source, tables

pytestmark = [pytest.mark.spark, pytest.mark.long]

AS_OF = datetime(2013, 3, 20, 2, tzinfo=UTC)
QUERY = dataset.QUERY.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def slice_url(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three airlines from mid-February to the end of March."""
    folder = tmp_path_factory.mktemp("slice")
    tables.write_tables(str(folder), source.replayed_day(date(2013, 11, 10)))
    for name, column in (("schedule", "departs_at"), ("arrivals", "landed_at")):
        path = folder / "tables" / name / "part-0.parquet"
        keep = [
            (column, ">=", datetime(2013, 2, 10, tzinfo=UTC)),
            (column, "<", datetime(2013, 4, 1, tzinfo=UTC)),
            ("carrier", "in", ["B6", "HA", "VX"]),
        ]
        pq.write_table(pq.read_table(path, filters=keep, partitioning=None), path)
    return folder / "tables"


def _rows(spark: SparkSession, url: Path, *as_ofs: datetime) -> pd.DataFrame:
    rows = feature_rows(spark, str(url), QUERY, as_ofs or (AS_OF,)).toPandas()
    return rows.sort_values(["as_of", "entity"], ignore_index=True)


@pytest.fixture(scope="module")
def rows(spark: SparkSession, slice_url: Path) -> pd.DataFrame:
    return _rows(spark, slice_url)


def _changed(slice_url: Path, folder: Path, table: str, column: str, change: pd.Timedelta | float) -> Path:
    """A copy of the tables in which `column` of `table` differs in every row after the moment."""
    moments = {"schedule": "departs_at", "arrivals": "landed_at"}
    for name in ("schedule", "arrivals", "weather"):
        (folder / name).mkdir(parents=True)
        found = pq.read_table(slice_url / name / "part-0.parquet", partitioning=None)
        if name == table:
            frame = found.to_pandas()
            later = frame[moments[name]] >= AS_OF + (timedelta(days=1) if name == "schedule" else timedelta())
            assert later.any()
            frame.loc[later, column] += change
            found = pa.Table.from_pandas(frame, schema=found.schema, preserve_index=False)
        pq.write_table(found, folder / name / "part-0.parquet")
    return folder


def test_one_row_an_entity_known_by_then(rows: pd.DataFrame) -> None:
    flights = source.flights()
    flights = flights[flights["carrier"].isin(["B6", "HA", "VX"])]
    until = flights[flights["departs_at"].between(datetime(2013, 2, 10, tzinfo=UTC), AS_OF + timedelta(days=1))]

    assert rows["entity"].is_unique
    assert set(rows["entity"]) == set(until["entity"])
    coming = until[until["departs_at"] >= AS_OF]
    assert set(rows[rows["scheduled"]]["entity"]) == set(coming["entity"])


@pytest.mark.parametrize(
    ("table", "column", "change"), [("arrivals", "arr_delay", 500.0), ("schedule", "distance", 1e6)]
)
def test_what_happens_later_changes_nothing(
    spark: SparkSession,
    slice_url: Path,
    rows: pd.DataFrame,
    tmp_path: Path,
    table: str,
    column: str,
    change: float,
) -> None:
    changed = _changed(slice_url, tmp_path / "tables", table, column, change)

    pd.testing.assert_frame_equal(_rows(spark, changed), rows)


def test_history_is_that_of_the_last_28_days(rows: pd.DataFrame) -> None:
    flights = source.flights()
    flights = flights[flights["landed_at"].notna()]
    past = flights[(flights["landed_at"] < AS_OF) & (flights["landed_at"] >= AS_OF - timedelta(days=28))]
    by_entity = past.groupby("entity")["arr_delay"]

    found = rows.set_index("entity")
    known = found[found["entity_flights"] > 0].index
    assert len(known) > 100
    assert (found.loc[known, "entity_flights"] == by_entity.size().loc[known]).all()
    mean = past.assign(arr_delay=past["arr_delay"].clip(-60, 180)).groupby("entity")["arr_delay"].mean()
    assert (found.loc[known, "entity_delay"] - mean.loc[known]).abs().max() < 1e-4
    late = past.assign(late=past["arr_delay"] > 15).groupby("entity")["late"].mean()
    assert (found.loc[known, "entity_late"] - late.loc[known]).abs().max() < 1e-9


def test_many_moments_at_once_give_what_each_gives_alone(
    spark: SparkSession, slice_url: Path, rows: pd.DataFrame
) -> None:
    both = _rows(spark, slice_url, AS_OF - timedelta(days=1), AS_OF)

    later = both[both["as_of"] == both["as_of"].max()].reset_index(drop=True)
    pd.testing.assert_frame_equal(later, rows)


def test_a_flight_not_scheduled_is_moved_to_the_coming_day(rows: pd.DataFrame) -> None:
    moved = rows[~rows["scheduled"]]

    assert len(moved)
    assert moved["weekday"].isin([1, 2]).all()  # the coming day is a Tuesday evening and a Wednesday
    assert moved["temp"].notna().mean() > 0.9


def test_moments_need_a_zone_and_tables_are_needed(spark: SparkSession, slice_url: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="time zone"):
        feature_rows(spark, str(slice_url), QUERY, [AS_OF.replace(tzinfo=None)])
    with pytest.raises(ValueError, match="no tables"):
        feature_rows(spark, str(tmp_path), QUERY, [AS_OF])

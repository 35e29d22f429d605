"""The demo's flights and look-ups: known counts of the data, and nothing outside its day."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

from infra.demo import source
from infra.demo.lookups import DAY_BEGINS_HOUR_UTC, lookups_of

TODAY = date(2026, 11, 29)


@pytest.mark.parametrize("back", range(14))
def test_the_replayed_day_is_the_same_weekday_of_one_week(back: int) -> None:
    today = TODAY - timedelta(days=back)
    day = source.replayed_day(today)

    assert day.weekday() == today.weekday()
    assert date(2013, 11, 10) <= day <= date(2013, 11, 16)
    assert source.shift_to(today).days % 7 == 0


def test_entities_and_flights_are_those_of_the_data() -> None:
    flights = source.flights()

    assert len(flights) == 336_776
    assert flights["entity"].nunique() == 12_075
    assert int(flights["flown"].sum()) == 328_521
    assert "UA1545-EWR-IAH" in set(flights["entity"])
    assert not flights.duplicated(["entity", "departs_at"]).any()


def test_a_flight_keeps_its_planned_and_real_times() -> None:
    flights = source.flights()
    first = flights[(flights["entity"] == "UA1545-EWR-IAH")].iloc[0]

    # 5:15 in New York; 8:19 planned in Houston, 11 minutes late.
    assert first["departs_at"].to_pydatetime() == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)
    assert first["arrives_at"].to_pydatetime() == datetime(2013, 1, 1, 14, 19, tzinfo=UTC)
    assert first["landed_at"].to_pydatetime() == datetime(2013, 1, 1, 14, 30, tzinfo=UTC)
    assert (first["local_hour"], first["weekday"]) == (5, 1)


def test_a_plane_has_slack_only_after_an_earlier_leg() -> None:
    flights = source.flights()
    again = flights[flights["plane_slack"].notna()]

    assert 0.3 < len(again) / len(flights) < 0.6
    assert flights["plane_legs"].max() <= 10


def test_every_seat_of_every_flight_flown_is_one_look_up() -> None:
    lookups = lookups_of(TODAY, TODAY, seed=0)
    flights = source.flights()
    day = source.replayed_day(TODAY)
    begin = datetime(day.year, day.month, day.day, DAY_BEGINS_HOUR_UTC, tzinfo=UTC)
    today = flights[
        (flights["departs_at"] >= begin) & (flights["departs_at"] < begin + timedelta(days=1)) & flights["flown"]
    ]

    assert len(lookups.times) == int(today["seats"].fillna(149).sum())
    assert set(lookups.entities) == set(today["entity"])


def test_look_ups_lie_in_their_day_in_order() -> None:
    lookups = lookups_of(TODAY - timedelta(days=3), TODAY, seed=3)
    begin = np.datetime64("2026-11-26T02:00", "us")

    assert (np.diff(lookups.times.astype(np.int64)) >= 0).all()
    assert lookups.times[0] >= begin
    assert lookups.times[-1] < begin + np.timedelta64(1, "D")
    assert lookups.minutes.min() >= 0
    assert lookups.minutes.max() < 1440


def test_look_ups_are_the_same_for_the_same_seed() -> None:
    one, two, other = (lookups_of(TODAY, TODAY, seed=seed) for seed in (1, 1, 2))

    assert (one.times == two.times).all()
    assert (one.entities == two.entities).all()
    assert (one.times != other.times).any()


def test_thinning_keeps_the_shape_of_the_day() -> None:
    lookups = lookups_of(TODAY, TODAY, seed=0)
    thin = lookups.thinned(10)

    assert len(thin.times) == -(-len(lookups.times) // 10)
    whole, part = (np.bincount(one.minutes // 60, minlength=24) for one in (lookups, thin))
    assert np.abs(whole / 10 - part).max() <= 2

"""What precomputing costs, against cases computed by hand."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from online.monitor.fleet_page.costs import RedisMemory, balance, nightly_job, redis_memory
from online.monitor.settings import MonitorSettings
from schemas.run_folders import RunFolders, read_runs
from tests.support.request_log import utc
from tests.support.runs_on_disk import write_run

FIRST = utc("2026-11-27 02:00")
HOUR_S = 3600.0


def settings(**given: object) -> MonitorSettings:
    return MonitorSettings.model_validate(given)


def read(root: Path) -> RunFolders:
    return read_runs(str(root), "delay")


def night(root: Path, began: datetime, hours: float, number: int = 1, **more: float) -> None:
    """Scored after two thirds, published and verified at the end."""
    name = f"{began:%Y%m%dT%H%M}Z-{number}"
    end_s = hours * HOUR_S
    write_run(root, "delay", name, began, score=end_s * 2 / 3, publish=end_s * 0.9, verify=end_s, **more)


def test_hours_a_day_of_the_last_week(tmp_path: Path) -> None:
    """1 h, 2 h and 3 h on three days: 2 h a day. One of eight days before the newest is not counted."""
    for day, hours in enumerate((1.0, 2.0, 3.0)):
        night(tmp_path, FIRST + timedelta(days=day), hours)
    night(tmp_path, FIRST - timedelta(days=6), 9.0)
    found = nightly_job(read(tmp_path))
    assert found is not None
    assert (found.hours_per_day, found.runs, found.days) == (pytest.approx(2.0), 3, 3)
    assert (found.newest, found.newest_hours, found.scoring_hours) == ("20261129T0200Z-1", 3.0, 2.0)
    assert found.newest_end == utc("2026-11-29 05:00")


def test_runs_that_overlap_hold_the_same_machines(tmp_path: Path) -> None:
    """02:00 to 03:00 and 02:30 to 04:00 are two hours of one day."""
    night(tmp_path, FIRST, 1.0)
    night(tmp_path, FIRST + timedelta(minutes=30), 1.5, number=1)
    found = nightly_job(read(tmp_path))
    assert found is not None
    assert (found.hours_per_day, found.days) == (pytest.approx(2.0), 1)


def test_what_never_got_so_far_or_lacks_its_time_costs_nothing_known(tmp_path: Path) -> None:
    assert nightly_job(read(tmp_path)) is None
    write_run(tmp_path, "delay", "20261127T0200Z-1", FIRST, score=60.0)
    write_run(tmp_path, "delay", "20261128T0200Z-1", FIRST, score=-60.0, publish=-60.0)
    assert nightly_job(read(tmp_path)) is None


def test_replica_hours_without_prices(tmp_path: Path) -> None:
    """2 replicas saved are 48 h a day; the job's 3 h at 4 replicas are 12; 36 h are left, 1.5 replicas."""
    night(tmp_path, FIRST, 3.0)
    found = balance(2, nightly_job(read(tmp_path)), RedisMemory(5.0), settings(batch_replicas=4))
    assert (found.saved.replica_hours_per_day, found.job.replica_hours_per_day) == (48, pytest.approx(12.0))
    assert (found.left.replica_hours_per_day, found.left.replicas) == (pytest.approx(36.0), pytest.approx(1.5))
    assert found.redis.replica_hours_per_day is None
    assert {line.money_per_month for line in (found.saved, found.job, found.redis, found.left)} == {None}
    assert not found.is_loss


def test_money_and_replica_hours_by_prices(tmp_path: Path) -> None:
    """At 2 a replica-hour 2 replicas are 2 x 730 x 2 = 2,920 a month.

    The job's 3 h a day at 8: 3 x 730 / 24 x 8 = 730; as replica-hours 3 x 8 / 2 = 12 a day. 10 GB at 7.3: 73 a
    month; as replica-hours 73 / 730 x 24 / 2 = 1.2 a day. Left 2,117 a month and 48 - 13.2 = 34.8 h a day.
    """
    night(tmp_path, FIRST, 3.0)
    prices = settings(price_per_replica_hour=2, price_per_batch_hour=8, price_per_redis_gb_month=7.3)
    found = balance(2, nightly_job(read(tmp_path)), RedisMemory(10.0), prices)
    assert found.saved.money_per_month == pytest.approx(2920)
    assert found.job.money_per_month == pytest.approx(730)
    assert found.redis.money_per_month == pytest.approx(73)
    assert found.left.money_per_month == pytest.approx(2117)
    assert found.job.replica_hours_per_day == pytest.approx(12)
    assert found.redis.replica_hours_per_day == pytest.approx(1.2)
    assert found.left.replica_hours_per_day == pytest.approx(34.8)
    # Replica-hours and money tell the same.
    assert found.left.replica_hours_per_day * 730 / 24 * 2 == pytest.approx(found.left.money_per_month)


def test_a_job_that_costs_more_than_it_saves_is_negative(tmp_path: Path) -> None:
    """1 replica saved is 24 h; 9 h of a job on 4 machines are 36: 12 h a day are lost, half a replica."""
    night(tmp_path, FIRST, 9.0)
    found = balance(1, nightly_job(read(tmp_path)), RedisMemory(0.0), settings(batch_replicas=4))
    assert (found.left.replica_hours_per_day, found.left.replicas) == (pytest.approx(-12), pytest.approx(-0.5))
    assert found.is_loss


def test_one_price_alone_gives_no_sum() -> None:
    found = balance(2, None, RedisMemory(1.0), settings(price_per_replica_hour=2))
    assert (found.saved.money_per_month, found.job.money_per_month) == (pytest.approx(2920), None)
    assert (found.left.money_per_month, found.left.replica_hours_per_day) == (None, 48)


def test_memory_is_given_or_that_of_the_routed_generations() -> None:
    assert redis_memory(None, RunFolders({}), settings(redis_gb=3)) == RedisMemory(3.0, is_given=True)
    assert redis_memory(None, RunFolders({}), settings()) == RedisMemory(0.0)

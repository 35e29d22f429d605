"""What precomputing costs and what it leaves of what it saves: the nightly job, Redis's memory, prices. Pure.

A replica-hour is a GPU-hour where a replica has one GPU.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from online.monitor.settings import MonitorSettings
from online.planning.prices import HOURS_PER_MONTH
from schemas.routes import RoutesDocument
from schemas.run_folders import RunFacts, RunFolders

HOURS_PER_DAY = 24
# Steps that hold machines; activation may wait for a person.
_STEPS = ("score", "publish", "verify")
_WEEK_S = 7 * 86_400


@dataclass(frozen=True, slots=True)
class NightlyJob:
    """Hours a day in which a run was at work, of `runs` of the week up to the newest, on `days` UTC days.

    `newest_hours` is the newest run's alone, from its beginning until it was verified; `scoring_hours` until its
    results were written.
    """

    hours_per_day: float
    runs: int
    days: int
    newest: str
    newest_hours: float
    scoring_hours: float
    newest_end: datetime


@dataclass(frozen=True, slots=True)
class RedisMemory:
    """`gb` of 1e9 bytes. `generations` were counted, `unknown` more have no known size; none where it is given."""

    gb: float
    generations: tuple[str, ...] = ()
    unknown: int = 0
    is_given: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Of one saving or cost: replica-hours a day and money a month; None where a price is not set."""

    replica_hours_per_day: float | None
    money_per_month: float | None

    @property
    def replicas(self) -> float | None:
        return None if self.replica_hours_per_day is None else self.replica_hours_per_day / HOURS_PER_DAY


@dataclass(frozen=True, slots=True)
class Balance:
    """`left` is what is saved less what is known of both costs; negative where precomputing costs more."""

    saved: Line
    job: Line
    redis: Line
    left: Line

    @property
    def is_loss(self) -> bool:
        return any(
            value is not None and value < 0
            for value in (self.left.replica_hours_per_day, self.left.money_per_month)
        )


def nightly_job(folders: RunFolders) -> NightlyJob | None:
    """None where no run has been verified or published yet.

    Runs that overlap hold the same machines, so that their hours count once. A step that was run again later
    counts until then.
    """
    ended = [(run, *span) for run in folders.runs.values() if (span := _span_s(run)) is not None]
    if not ended:
        return None
    newest, start_s, end_s = max(ended, key=lambda one: one[1])
    week = [(begun, end) for _, begun, end in ended if begun > start_s - _WEEK_S]
    days = len({datetime.fromtimestamp(begun, UTC).date() for begun, _ in week})
    scored = _finished_s(newest, "score")
    return NightlyJob(
        hours_per_day=_union_s(week) / 3600 / days,
        runs=len(week),
        days=days,
        newest=newest.generation,
        newest_hours=(end_s - start_s) / 3600,
        scoring_hours=((scored or end_s) - start_s) / 3600,
        newest_end=datetime.fromtimestamp(end_s, UTC),
    )


def redis_memory(routes: RoutesDocument | None, folders: RunFolders, settings: MonitorSettings) -> RedisMemory:
    """What is given by the settings, else what publishing reckoned of the generations in the routes document."""
    if settings.redis_gb is not None:
        return RedisMemory(settings.redis_gb, is_given=True)
    names = {one.id for _, one in routes.generations} if routes else set()
    sizes = {name: _reckoned_bytes(folders.runs.get(name)) for name in sorted(names, reverse=True)}
    known = {name: size for name, size in sizes.items() if size is not None}
    return RedisMemory(sum(known.values()) / 1e9, tuple(known), len(sizes) - len(known))


def balance(saved_replicas: int, job: NightlyJob | None, redis: RedisMemory, settings: MonitorSettings) -> Balance:
    """In replica-hours, by the ratio of prices where both are set, and in money.

    Without prices an hour of the job counts as `batch_replicas`, and Redis is not counted.
    """
    replica_price, batch_price = settings.price_per_replica_hour, settings.price_per_batch_hour
    redis_price = settings.price_per_redis_gb_month
    job_hours = job.hours_per_day if job else 0.0
    ratio = settings.batch_replicas
    if replica_price is not None and batch_price is not None:
        ratio = batch_price / replica_price
    saved = Line(saved_replicas * HOURS_PER_DAY, _month(saved_replicas * HOURS_PER_DAY, replica_price))
    of_job = Line(job_hours * ratio, _month(job_hours, batch_price))
    redis_money = None if redis_price is None else redis.gb * redis_price
    redis_hours = None
    if redis_money is not None and replica_price is not None:
        redis_hours = redis_money / HOURS_PER_MONTH * HOURS_PER_DAY / replica_price
    of_redis = Line(redis_hours, redis_money)
    hours = _sum(
        [saved.replica_hours_per_day], [of_job.replica_hours_per_day, of_redis.replica_hours_per_day or 0]
    )
    money = _sum([saved.money_per_month], [of_job.money_per_month, of_redis.money_per_month])
    return Balance(saved, of_job, of_redis, Line(hours, money))


def _month(hours_per_day: float, price_per_hour: float | None) -> float | None:
    return None if price_per_hour is None else hours_per_day * HOURS_PER_MONTH / HOURS_PER_DAY * price_per_hour


def _sum(plus: Iterable[float | None], minus: Iterable[float | None]) -> float | None:
    """None where one is not known."""
    gained, lost = list(plus), list(minus)
    if None in gained or None in lost:
        return None
    return sum(one or 0.0 for one in gained) - sum(one or 0.0 for one in lost)


def _span_s(run: RunFacts) -> tuple[float, float] | None:
    ends = [end for step in _STEPS if (end := _finished_s(run, step)) is not None]
    begun = run.computed_at_ms / 1e3
    if "score" not in run.reports or "publish" not in run.reports or not ends or max(ends) < begun:
        return None
    return begun, max(ends)


def _finished_s(run: RunFacts, step: str) -> float | None:
    """None for a report without a usable time."""
    try:
        moment = datetime.fromisoformat(str(run.reports.get(step, {}).get("finished_at")))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _union_s(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds in at least one of the spans."""
    total, reached = 0.0, float("-inf")
    for begun, end in sorted(spans):
        total += max(0.0, end - max(begun, reached))
        reached = max(reached, end)
    return total


def _reckoned_bytes(run: RunFacts | None) -> int | None:
    found = run.reports.get("publish", {}).get("needed_bytes") if run else None
    return found if isinstance(found, int) else None

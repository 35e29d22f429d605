"""The demo from end to end: data, model, stack, the real night by Airflow, the day's look-ups, the figures.

Wiring only. Everything it leaves lies in the state folder (`.hotset`), so that a second run does less.
"""

import asyncio
import json
import os
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from pathlib import Path
from typing import TypeVar

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uvloop

from batch_scoring.requestlog.import_log import import_log
from infra.airflow.night import run_night
from infra.demo.compare import Comparison, compare_hits_with_live
from infra.demo.console import Count, say, show_table, step
from infra.demo.figures import Measured, quantile_ms, replicas, rows_of, share_by_source, traffic_of
from infra.demo.lookups import DayLookups, lookups_of
from infra.demo.replay import Lookup, Replay, ReplayResult
from infra.demo.tables import write_tables
from infra.demo.train import Trained, train_bundle
from infra.local.programs import write_env_file
from infra.local.settings import HOME, StackSettings
from infra.local.stack import LocalStack
from schemas.arrow import HOT_SET
from schemas.capacity import BatchTime
from schemas.names import FEATURE_QUERY_FILE, TABLES, run_path

MODEL = "delay"
T = TypeVar("T")
HISTORY_DAYS = 28
NIGHT_HOUR_UTC = 2


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`factor`: one look-up in so many is made. `replay_s`: seconds into which the day is compressed."""

    settings: StackSettings
    factor: int = 10
    replay_s: float = 60.0
    is_small: bool = False


@dataclass(frozen=True, slots=True)
class Night:
    """The generation that is live after the night, and what it was computed from."""

    generation: str
    hot: frozenset[str]
    known_entities: int
    bundle: Path
    features: Path


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    measured: Measured
    night: Night
    lookups: Sequence[Lookup]
    result: ReplayResult


def served_day(now: datetime) -> date:
    """The day that the last scheduled night was for: today, from 02:00 UTC on."""
    return now.date() if now.hour >= NIGHT_HOUR_UTC else date.fromordinal(now.toordinal() - 1)


def run_demo(options: DemoOptions) -> DemoOutcome:
    """Runs all of it and leaves the stack running.

    Raises:
        StackError, NightFailed, NotComparable, OSError: a part did not come up or did wrong; the stack is stopped.
    """
    began = time.monotonic()
    settings = options.settings
    day = served_day(datetime.now(UTC))
    trained = prepare(options, day)
    stack = LocalStack(settings, say=say)
    try:
        with step("Start the stack"):
            stack.start()
        night = run_first_night(settings, day, trained)
        with step(f"Replay the day's look-ups, one in {options.factor}"):
            today = lookups_of(day, day, seed=0)
            lookups = compressed(today, options)
            result = run_async(replay(settings, lookups))
        with step("Compare precomputed answers with live ones"):
            comparison = run_async(compare_hits_with_live(settings.url("api"), MODEL, night.features, night.hot))
    except BaseException:
        stack.stop()
        raise
    measured = measure(settings, night, today, result, comparison, trained, time.monotonic() - began)
    report(options, measured)
    return DemoOutcome(measured, night, lookups, result)


def prepare(options: DemoOptions, day: date) -> Trained:
    """Source tables, model bundle and the log of the 28 days before; what is there already is kept."""
    settings = options.settings
    with step(f"Write the source tables: flights of 2013, moved by whole weeks so that the day is {day}"):
        write_tables(str(settings.data), day)
        query = Path(__file__).with_name(FEATURE_QUERY_FILE).read_text(encoding="utf-8")
        (settings.data / TABLES / FEATURE_QUERY_FILE).write_text(query, encoding="utf-8")
    with step("Train and bundle the model"):
        trained = train_bundle(settings.state, day, is_small=options.is_small)
    with step(f"Write the look-ups of the {HISTORY_DAYS} days before as the request log of the first night"):
        rows = write_history(settings, day, options.factor)
        say(f"{rows:,} look-ups")
    write_env_file(
        settings,
        {
            "INFERENCE_BUNDLES": json.dumps([f"{trained.bundle}@{trained.digest}"]),
            "INFERENCE_ALLOWED_BUNDLE_URLS": json.dumps([str(trained.bundle.parent)]),
            "API_ALLOWED_BUNDLE_URLS": json.dumps([str(trained.bundle.parent)]),
            "BATCH_ALLOWED_BUNDLE_URLS": json.dumps([str(trained.bundle.parent)]),
            "API_MODELS": json.dumps([MODEL]),
            "MONITOR_MODELS": json.dumps([MODEL]),
        },
    )
    return trained


def write_history(settings: StackSettings, day: date, factor: int) -> int:
    """Imports the look-ups of the days before `day`; those of an earlier demo with another shift are replaced."""
    source = settings.state / "demo" / "history.parquet"
    source.parent.mkdir(parents=True, exist_ok=True)
    parts = [
        lookups_of(date.fromordinal(day.toordinal() - back), day, seed=back).thinned(factor)
        for back in range(HISTORY_DAYS, 0, -1)
    ]
    columns = [np.concatenate([part.times for part in parts]), np.concatenate([part.entities for part in parts])]
    table = pa.table({"time": pa.array(columns[0], pa.timestamp("us", "UTC")), "entity": pa.array(columns[1])})
    for old in (settings.data / "requests" / f"model={MODEL}").glob("date=*/hour=*/import-*.parquet"):
        old.unlink()
    pq.write_table(table, source)
    return import_log(str(source), str(settings.data), MODEL, "time", "entity")


def run_first_night(settings: StackSettings, day: date, trained: Trained) -> Night:
    """The DAG as Airflow runs it, and what it left."""
    as_of = datetime.combine(day, time_of_day(NIGHT_HOUR_UTC), UTC)
    with step("Run the nightly DAG by Airflow"):
        model = {"model": MODEL, "bundle": str(trained.bundle), "digest": trained.digest}
        run_night(settings, [model], as_of, say, parameters=model)
    with step("Wait until the endpoint serves the new generation"):
        generation = wait_for_generation(settings)
        say(f"generation {generation}")
    folder = settings.data / run_path(MODEL, generation)
    hot = pq.read_table(folder / "hotset", schema=HOT_SET)["entity"].to_pylist()
    features = folder / "features"
    known = pq.read_table(features, columns=["entity"]).num_rows
    return Night(generation, frozenset(hot), known, trained.bundle, features)


def wait_for_generation(settings: StackSettings, patience_s: float = 30.0) -> str:
    """The generation in service. Raises TimeoutError where none is within `patience_s`."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        answer = httpx.get(f"{settings.url('api')}/v1/models/{MODEL}")
        if answer.status_code == 200 and (generation := answer.json()["generation"]):
            return str(generation)
        time.sleep(0.1)
    raise TimeoutError(f"no generation is in service after {patience_s:.0f} s")


def compressed(today: DayLookups, options: DemoOptions) -> list[Lookup]:
    """The day's look-ups, thinned and pressed into `replay_s` seconds in their order and proportion."""
    thin = today.thinned(options.factor)
    seconds = (thin.times - thin.times[0]) / np.timedelta64(1, "s")
    scale = options.replay_s / max(1.0, float(seconds[-1]))
    return [Lookup(float(at) * scale, str(entity)) for at, entity in zip(seconds, thin.entities, strict=True)]


def run_async(work: Coroutine[object, object, T]) -> T:
    """Runs it on a loop of its own, which the caller's thread never takes for its current one."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def replay(settings: StackSettings, lookups: Sequence[Lookup]) -> ReplayResult:
    say(f"{len(lookups):,} look-ups in {lookups[-1].at_s:.0f} s")
    client = Replay("127.0.0.1", settings.port("api"), MODEL)
    return await client.run(lookups, Count("answered", len(lookups)))


def measure(
    settings: StackSettings,
    night: Night,
    today: DayLookups,
    result: ReplayResult,
    comparison: Comparison,
    trained: Trained,
    wall_s: float,
) -> Measured:
    shares = share_by_source(result)
    traffic = traffic_of(today.minutes, today.entities.tolist(), night.hot)
    device = batch_time(settings)
    without, with_hot_set = replicas(traffic, device, trained.max_batch_rows)
    return Measured(
        requests=len(result.answered),
        errors=result.errors,
        retries=sum(result.retries.values()),
        share_precomputed=shares["precomputed"],
        share_cached=shares["cached"],
        share_live=shares["live"],
        hit_p50_ms=quantile_ms(result, "precomputed", 0.5),
        hit_p99_ms=quantile_ms(result, "precomputed", 0.99),
        cached_p50_ms=quantile_ms(result, "cached", 0.5),
        cached_p99_ms=quantile_ms(result, "cached", 0.99),
        live_p50_ms=quantile_ms(result, "live", 0.5),
        live_p99_ms=quantile_ms(result, "live", 0.99),
        hot_entities=len(night.hot),
        known_entities=night.known_entities,
        hot_entity_share=len(night.hot) / max(1, night.known_entities),
        hot_traffic_share=traffic.hot_share,
        replicas_without=without,
        replicas_with=with_hot_set,
        tau0_ms=device.tau0_ms,
        alpha_ms=device.alpha_ms,
        max_abs_diff_hit_vs_live=comparison.max_abs_difference,
        compared_entities=comparison.entities,
        auc=trained.auc,
        brier=trained.brier,
        wall_s=wall_s,
    )


def batch_time(settings: StackSettings) -> BatchTime:
    """T(b) as the replica measured it while warming up."""
    profile = httpx.get(f"{settings.url('inference')}/v1/profile").raise_for_status().json()
    version = profile["versions"][0]
    return BatchTime(version["tau0_ms"], version["alpha_ms"])


def report(options: DemoOptions, measured: Measured) -> None:
    """The table for people, the same figures for machines, and where to look next."""
    show_table("Will my flight be late?", ("figure", "value", "what it is"), rows_of(measured, options.factor))
    path = options.settings.state / "demo.json"
    path.write_text(json.dumps(measured.as_json(), indent=1) + "\n", encoding="utf-8")
    say(f"the same figures: {os.path.relpath(path, HOME)}")
    say(f"site      {options.settings.url('monitor')}")
    say(f"endpoint  {options.settings.url('api')}/docs")
    say("the stack is running: `make airflow` opens Airflow on it, `make down` stops it")

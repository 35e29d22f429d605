"""`drift_watch` and `request_log_upkeep` as Airflow runs them: what was planted is told, the log is kept small."""

import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import orjson
import pytest

from schemas.bundle import read_folder
from schemas.drift import read_reports
from schemas.keys import routes_key
from schemas.names import requests_hour_path
from schemas.routes import Activation, Generation
from schemas.transitions import first_document
from tests.dags.world import World, small_world
from tests.support.bundles import AIRLINES
from tests.support.night import AS_OF
from tests.support.request_log import log_table, write_log

pytestmark = [pytest.mark.airflow, pytest.mark.long, pytest.mark.timeout(600)]

MODEL = "tiny"
ROWS = 300
AT = AS_OF - timedelta(hours=40)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="hotset-drift-") as folder, small_world(Path(folder)) as found:
        bundle = read_folder(found.night.bundle("1"))
        generation = Generation(
            id="20261127T0200Z-1", ordinal=1, buckets=1, codec=1, rows=1, computed_at_ms=1_700_000_000_000
        )
        offer = Activation(
            model=MODEL,
            version="1",
            bundle_url=str(bundle.folder),
            bundle_digest=bundle.digest,
            generation=generation,
            features=None,
            token=1,
        )
        found.night.redis.set(routes_key(MODEL), first_document(offer, 1_700_000_000_000).model_dump_json())
        for name, rows in (("first", range(ROWS // 2)), ("second", range(ROWS // 2, ROWS))):
            write_log(found.night.data, MODEL, log_table(tail_without_delays(rows)), name=name)
        yield found


def tail_without_delays(places: range) -> list[dict[str, object]]:
    """Live answers whose inputs have no `delay`."""
    return [
        {
            "time": AT + timedelta(seconds=place),
            "request_id": f"r{place}",
            "entity": f"e{place}",
            "version": "1",
            "source": "live",
            "inputs": orjson.dumps({"distance": 37.0 * place, "airline": AIRLINES[place % 3]}).decode(),
            "outputs": [0.5 + 0.001 * place, 10.0],
        }
        for place in places
    ]


def run(world: World, dag_id: str, as_of: datetime = AS_OF) -> dict[str, float]:
    return world.run(dag_id, as_of=as_of, models=[{"model": MODEL, "bundle": "none"}])


def test_a_fired_rule_is_told_and_fails_nothing(world: World) -> None:
    done = run(world, "drift_watch")
    assert set(done) == {"models", "watch", "tell"}
    (report,) = read_reports(str(world.night.data), MODEL, 9)
    # By the data interval, not by when it ran.
    assert [moment.isoformat() for moment in report.window] == [
        "2026-11-21T00:00:00+00:00",
        "2026-11-28T00:00:00+00:00",
    ]
    assert report.rows == {"tail": ROWS}
    (alert,) = world.alerts
    assert (alert["dag"], alert["model"], alert["alarm"]) == ("drift_watch", MODEL, True)
    assert "tail delay (missing)" in str(alert["text"])
    assert {one["name"] for one in alert["found"]} >= {"delay"}  # type: ignore[attr-defined]


def test_the_log_is_compacted_and_old_days_go(world: World) -> None:
    data = world.night.data
    old = {"time": AS_OF - timedelta(days=200), "request_id": "old", "entity": "e", "status": 200}
    write_log(data, MODEL, log_table([old]), name="old")
    assert set(run(world, "request_log_upkeep")) == {"has_turn", "compact", "retention"}
    assert not (data / requests_hour_path(MODEL, AS_OF - timedelta(days=200))).parent.exists()
    assert len(list((data / requests_hour_path(MODEL, AT)).glob("*.parquet"))) == 1
    assert world.alerts == []

"""Sampled inputs and outputs in the request log: of which answers, and without what is never to be logged."""

import json
from collections.abc import Iterator

import pytest
from redis import Redis

from batch_scoring.drift.counting import CountTask, count
from batch_scoring.drift.histograms import Baseline, histogram
from online.api.requestlog.places import place_of
from tests.support.api_process import ApiProcess
from tests.support.publish_small import Small, small_forward, small_manifest
from tests.support.redis_server import RedisServer
from tests.support.request_log_reading import Row, read_log
from tests.support.wire_worker import WireNode, served

SHARE = 0.4
ROWS = 120
RECORDS = {
    f"e{place}": {"distance": float(place), "edge": 0.2, "airline": ("AA", "DL")[place % 2]}
    for place in range(ROWS)
}


def is_sampled(row: Row) -> bool:
    return place_of(row["request_id"].encode(), row["entity"].encode()) < SHARE * 2**32


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Row]]:
    """The log of hits by the short and the long way, live answers, a batch, and features that were brought."""
    folder = tmp_path_factory.mktemp("samples")
    small = Small(folder, small_manifest("tiny"), RECORDS, list(RECORDS)[: ROWS // 2], small_forward)
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        small.publish(redis)
        worker = served(small.raw, small.forward)
        settings: dict[str, object] = {"redis_url": server.url, "models": ["tiny"], "log_sample": str(SHARE)}
        settings |= {"log_never": ["airline", "minutes"]}
        with WireNode(worker) as node, ApiProcess(folder, nodes=[node.address], **settings) as api:
            api.wait_ready()
            path = "/v1/models/tiny/predictions"
            for entity in RECORDS:
                api.client.get(f"{path}/{entity}", headers={"X-Request-Id": f"short-{entity}"})
                api.client.get(
                    f"{path}/{entity}", headers={"X-Request-Id": f"long-{entity}", "X-Deadline-Ms": "1999"}
                )
            asked = {"items": list(RECORDS)}
            api.client.post(f"{path}:batch", json=asked, headers={"X-Request-Id": "batch"})
            for entity, record in list(RECORDS.items())[:20]:
                body = {"entity": entity, "features": record}
                api.client.post(
                    "/v1/models/tiny/predict", json=body, headers={"X-Request-Id": f"brought-{entity}"}
                )
            yield read_log(api, "tiny", lambda found: len(found) >= 3 * ROWS + 20)


def test_request_and_entity_alone_decide(rows: list[Row]) -> None:
    assert len(rows) == 3 * ROWS + 20
    for row in rows:
        assert (row["outputs"] is not None) == is_sampled(row), row["request_id"]
        assert row["inputs"] is None or is_sampled(row)
    sampled = [row for row in rows if row["outputs"] is not None]
    assert {row["source"] for row in sampled} == {"precomputed", "cached", "live"}
    assert SHARE * 0.7 < len(sampled) / len(rows) < SHARE * 1.3


def test_what_is_never_logged_is_not(rows: list[Row]) -> None:
    live = [row for row in rows if row["inputs"] is not None]
    assert {row["request_id"].partition("-")[0] for row in live} >= {"short", "long", "brought"}
    for row in live:
        record = json.loads(row["inputs"])
        assert record["airline"] == {"withheld": True}
        assert record["distance"] == RECORDS[row["entity"]]["distance"]
    for row in rows:
        if row["outputs"] is not None:
            assert isinstance(row["outputs"][0], float)
            assert row["outputs"][1] is None


def test_drift_takes_what_is_withheld_for_that(rows: list[Row]) -> None:
    manifest = small_manifest("tiny")
    baselines = (
        Baseline("input", "airline", "category", 10, 0, (), ("AA", "DL"), (5, 5)),
        Baseline("input", "distance", "number", 10, 0, (0.0, 60.0, 120.0), (), (5, 5)),
        Baseline("output", "late", "number", 10, 0, (0.0, 0.5, 1.0), (), (5, 5)),
        Baseline("output", "minutes", "number", 10, 0, (0.0, 1.0), (), (10,)),
    )
    sampled = [row for row in rows if row["outputs"] is not None]
    records = [row for row in sampled if row["inputs"] is not None]
    task = CountTask("", "", "", (), manifest, baselines)
    found = count([row["inputs"] for row in sampled], [row["outputs"] for row in sampled], task, None)
    airline, distance, late, minutes = (histogram(one, found[one.key]) for one in baselines)
    assert (airline.rows, airline.withheld) == (0, len(records))
    assert (distance.rows, distance.withheld, distance.nulls) == (len(records), 0, 0)
    assert (late.rows, late.withheld, late.nulls) == (len(sampled), 0, 0)
    assert (minutes.rows, minutes.withheld) == (0, len(sampled))

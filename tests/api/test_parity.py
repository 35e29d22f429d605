"""Hits are computed again in the background, and what differs is put down to what made it differ."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
from redis import Redis

from online.api.parity.checks import MAX_WAITING
from schemas.arrow import PARITY
from schemas.codec import pack
from schemas.feature_table import pack_record
from schemas.keys import bucket_count, bucket_key, bucket_of, feature_key, field_of, generation_manifest_key
from tests.support.api_process import ApiProcess, wait_for
from tests.support.publish_small import COMPUTED_AT_MS, GENERATION, Small, small_forward, small_manifest
from tests.support.redis_server import RedisServer
from tests.support.request_log_reading import stream_rows
from tests.support.wire_worker import Served, WireNode, served

MODEL = "tiny"
NAMES = [f"e{place}" for place in range(40)]
RECORDS = {name: {"distance": 10.0 + place, "edge": 0.2, "airline": "DL"} for place, name in enumerate(NAMES)}
BUCKETS = bucket_count(len(NAMES))


@dataclass
class World:
    """All entities are hits, and every hit is compared. `version` is what the live tier runs."""

    api: ApiProcess
    redis: "Redis[bytes]"
    small: Small
    version: Served
    node: WireNode

    def ask(self, entity: str, **headers: str) -> dict[str, Any]:
        answer = self.api.client.get(f"/v1/models/{MODEL}/predictions/{entity}", headers=headers)
        assert answer.status_code == 200
        body: dict[str, Any] = answer.json()
        return body

    def ask_batch(self, *entities: str) -> None:
        body = {"items": entities}
        assert self.api.client.post(f"/v1/models/{MODEL}/predictions:batch", json=body).status_code == 200

    def rows(self, entity: str) -> list[dict[str, Any]]:
        paths = (self.api.state / "parity").glob(f"{MODEL}~*.arrows")
        return [row for path in paths for row in stream_rows(path) if row["entity"] == entity]

    def compared(self, entity: str, times: int = 1) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = wait_for(
            lambda: len(found := self.rows(entity)) >= times and found, 8.0, f"{entity} to be compared"
        )
        return rows

    def counted(self) -> dict[str, float]:
        """By kind or reason."""
        lines = self.api.client.get("/metrics").text.splitlines()
        of_parity = [line for line in lines if line.startswith("hotset_parity") and f'model="{MODEL}"' in line]
        named = (re.search(r'(?:kind|reason)="(\w+)"', line) for line in of_parity)
        return {name[1]: float(line.split()[-1]) for name, line in zip(named, of_parity, strict=True) if name}

    def store(self, entity: str, outputs: list[float]) -> None:
        """Puts other outputs into the generation."""
        raw = entity.encode()
        value = pack(raw, 1, COMPUTED_AT_MS, np.array(outputs, np.float32))
        self.redis.hset(bucket_key(MODEL, "1", GENERATION, bucket_of(raw, BUCKETS)), field_of(raw), value)

    def change_features(self, entity: str) -> None:
        raw, record = entity.encode(), RECORDS[entity] | {"distance": 900.0}
        packed = pack_record(raw, [record[name] for name in self.small.manifest.feature_names])
        self.redis.hset(feature_key(MODEL, GENERATION, bucket_of(raw, BUCKETS)), field_of(raw), packed)

    def outputs(self, entity: str) -> list[float]:
        found: list[float] = self.small.outputs([RECORDS[entity]])[0].tolist()
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("parity")
    small = Small(folder, small_manifest(MODEL), RECORDS, NAMES, small_forward)
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        small.publish(redis)
        version = served(small.raw, small.forward)
        settings: dict[str, object] = {"redis_url": server.url, "models": [MODEL], "l1_bytes": "0"}
        settings |= {"log_sample": "1.0", "parity_share": "1.0", "deadline_ms": "20000"}
        with WireNode(version) as node, ApiProcess(folder, nodes=[node.address], **settings) as api:
            api.wait_ready()
            yield World(api, redis, small, version, node)


@pytest.fixture(scope="module")
def compared(world: World) -> dict[str, list[dict[str, Any]]]:
    """Rows by entity, of hits on what is whole, and on what was tampered with."""
    late, minutes = world.outputs("e3")
    world.store("e3", [late, minutes * (1.0 + 2e-7)])
    late, minutes = world.outputs("e4")
    world.store("e4", [late, minutes * 1.5])
    world.change_features("e5")
    world.ask("e0")
    world.ask("e0", **{"X-Deadline-Ms": "1999"})
    world.ask_batch("e1", "e2")
    for entity in ("e3", "e4", "e5"):
        world.ask(entity)
    wait_for(lambda: world.version.requests >= 7, 8.0, "the live tier to be asked")
    late, minutes = world.outputs("e6")
    world.store("e6", [late, minutes + 100.0])
    key = generation_manifest_key(MODEL, "1", GENERATION)
    world.redis.set(key, orjson.dumps({"bundle_digest": "f" * 64}))
    world.ask("e6")
    world.compared("e6")
    world.redis.delete(key)
    return {entity: world.rows(entity) for entity in NAMES[:7]}


def test_a_hit_that_live_repeats_is_equal_by_the_short_and_the_long_way(
    world: World, compared: dict[str, list[dict[str, Any]]]
) -> None:
    rows = [*compared["e0"], *compared["e1"], *compared["e2"]]
    assert [(row["kind"], row["skipped"], row["tolerances"]) for row in rows] == [("equal", None, 0.0)] * 4
    assert {row["generation"] for row in rows} == {GENERATION}
    # What somebody waits for goes before it.
    assert world.version.priorities[:8] == [1] * 8
    wait_for(lambda: world.counted()["equal"] == 4.0, 8.0, "the counts")


@pytest.mark.parametrize(
    ("entity", "kind", "output"),
    [
        ("e3", "numeric", "minutes"),
        ("e4", "numeric_over", "minutes"),
        ("e5", "feature_drift", "minutes"),
        ("e6", "wrong_model", "minutes"),
    ],
    ids=["a last bit", "tampered with", "features changed since", "of another bundle"],
)
def test_a_difference_is_put_down_to_what_made_it(
    compared: dict[str, list[dict[str, Any]]], entity: str, kind: str, output: str
) -> None:
    (row,) = compared[entity]
    assert (row["kind"], row["output"]) == (kind, output)
    assert (row["tolerances"] > 1) == (kind != "numeric")


def test_a_live_tier_without_room_is_left_alone(world: World, compared: dict[str, list[dict[str, Any]]]) -> None:
    world.version.refuse_with, before = "overloaded", world.version.requests
    try:
        world.ask_batch("e7", "e8")  # offered one right after the other
        assert [row["skipped"] for row in world.compared("e8")] == ["over_capacity"]
        assert [row["skipped"] for row in world.compared("e7")] == ["over_capacity"]
        assert world.version.requests == before + 1, "it was asked again at once"
    finally:
        world.version.refuse_with = None
    # A refusal of what goes last is none of what goes first: an answer is computed at once.
    assert world.ask("e7", **{"Cache-Control": "no-cache"})["source"] == "live"


def test_a_stopped_live_tier_neither_slows_nor_fails_hits_and_what_is_behind_is_dropped(world: World) -> None:
    time.sleep(1.0)  # the pause after a refusal
    world.version.delay_s = 30.0
    asked = MAX_WAITING + 26
    fast_ms = sorted(timed(lambda: world.ask("e9")) for _ in range(asked))
    # Most wait, and the rest is dropped.
    wait_for(lambda: world.counted()["behind"] >= 25, 8.0, "drops")
    assert fast_ms[asked * 8 // 9] < 250
    world.node.stop()
    slow_ms = sorted(timed(lambda: world.ask("e10")) for _ in range(20))
    assert slow_ms[15] < 250
    reasons = Counter(row["skipped"] for row in world.compared("e9", asked))
    # One more is taken where the first is on its way before the others come.
    assert reasons in [{"behind": behind, "live_unavailable": asked - behind} for behind in (25, 26)]
    assert {row["skipped"] for row in world.compared("e10", 20)} <= {"live_unavailable", "behind"}


def timed(call: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    call()
    return (time.perf_counter() - began_s) * 1e3


def test_the_log_becomes_parquet_of_the_declared_schema(world: World) -> None:
    """The last test: it ends the API."""
    assert world.api.stop() is not None
    paths = sorted(world.api.data.glob(f"parity/model={MODEL}/date=*/hour=*/*.parquet"))
    assert paths
    tables = [pq.ParquetFile(path).read() for path in paths]
    assert all(table.schema.equals(PARITY) for table in tables)
    rows = [row for table in tables for row in table.to_pylist()]
    assert all((row["kind"] is None) != (row["skipped"] is None) for row in rows)
    assert {"equal", "numeric", "numeric_over", "feature_drift", "wrong_model"} <= {row["kind"] for row in rows}

"""Continuous parity against the real live tier: a torch worker computes the hits of a real bundle again."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redis import Redis

from runtime.program import load_program
from schemas.bundle import read_folder
from schemas.codec import pack
from schemas.features import FeatureTransform
from schemas.keys import bucket_count, bucket_key, bucket_of, field_of
from tests.support.api_process import ApiProcess, wait_for
from tests.support.bundles import AIRLINES, linear_bundle
from tests.support.inference import NodeProcess
from tests.support.publish_small import COMPUTED_AT_MS, GENERATION, Small
from tests.support.redis_server import RedisServer
from tests.support.request_log_reading import stream_rows

pytestmark = [pytest.mark.fault, pytest.mark.timeout(240)]

MODEL = "tiny"
RECORDS = {
    f"e{place}": {"distance": 30.0 * place, "delay": float(place % 9), "airline": AIRLINES[place % 3]}
    for place in range(60)
}
TAMPERED = "e7"


class Real(Small):
    """A model of a whole bundle, which lies in `folder`."""

    def __post_init__(self) -> None:
        bundle = read_folder(self.folder / "bundle")
        self.url, self.digest, self.raw = str(bundle.folder), bundle.digest, b""
        self.transform = FeatureTransform(bundle.manifest)
        self.forward = load_program(bundle.folder, bundle.manifest)


@dataclass
class World:
    api: ApiProcess
    redis: "Redis[bytes]"
    node: NodeProcess

    def ask(self, entity: str) -> None:
        answer = self.api.client.get(f"/v1/models/{MODEL}/predictions/{entity}")
        assert (answer.status_code, answer.json()["source"]) == (200, "precomputed")

    def rows(self) -> list[dict[str, Any]]:
        paths = (self.api.state / "parity").glob(f"{MODEL}~*.arrows")
        return [row for path in paths for row in stream_rows(path)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("parity-live")
    bundle = linear_bundle(folder / "bundle", "1", MODEL)
    small = Real(folder, bundle.manifest, RECORDS, list(RECORDS))
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        small.publish(redis)
        settings: dict[str, object] = {"redis_url": server.url, "models": [MODEL], "l1_bytes": "0"}
        settings |= {"log_sample": "1.0", "parity_share": "1.0"}
        with (
            NodeProcess.run(folder / "cache", [f"{bundle.folder}@{bundle.digest}"], [folder]) as node,
            ApiProcess(folder, nodes=[node.wire_address], **settings) as api,
        ):
            wait_for(
                lambda: api.client.get("/readyz").json()["models"][MODEL].get("warm_replicas"),
                60,
                "a warm replica",
            )
            yield World(api, redis, node)


def test_a_real_worker_repeats_what_a_bare_call_gave_and_finds_what_was_tampered_with(world: World) -> None:
    raw = TAMPERED.encode()
    key = bucket_key(MODEL, "1", GENERATION, bucket_of(raw, bucket_count(len(RECORDS))))
    world.redis.hset(key, field_of(raw), pack(raw, 1, COMPUTED_AT_MS, np.array([0.5, 77.0], np.float32)))
    for entity in RECORDS:
        world.ask(entity)
    rows = wait_for(lambda: len(found := world.rows()) == len(RECORDS) and found, 20.0, "all to be compared")
    kinds = {row["entity"]: row["kind"] for row in rows}
    assert kinds.pop(TAMPERED) == "numeric_over"
    # Of another batch the last bits may differ.
    assert set(kinds.values()) <= {"equal", "numeric"}


def test_without_a_live_tier_hits_are_answered_as_ever(world: World) -> None:
    world.node.process.terminate()
    world.node.process.wait(20)
    before = len(world.rows())
    took_s = []
    for entity in RECORDS:
        began_s = time.perf_counter()
        world.ask(entity)
        took_s.append(time.perf_counter() - began_s)
    assert sorted(took_s)[55] < 0.25
    rows = wait_for(lambda: len(found := world.rows()) == before + len(RECORDS) and found, 10.0, "the log")
    assert {row["skipped"] for row in rows[before:]} == {"live_unavailable"}

"""What `/metrics` says of answers: every reason of a miss, where the time goes, how old the generation is."""

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis

from schemas.http import MissReason
from schemas.keys import bucket_key, bucket_of
from schemas.manifest import Freshness
from schemas.names import STAGES
from tests.api.fresh_world import BASE, MINUTE_MS, RECORDS, TOKEN
from tests.support.api_process import ApiProcess, wait_for
from tests.support.nights import load, redis_ms, route
from tests.support.publish_small import Small, small_forward, small_manifest
from tests.support.redis_server import RedisServer
from tests.support.scraped import Scraped
from tests.support.wire_worker import Served, WireNode

MADE = "20261129T0200Z-1"
MODELS = {"plain": Freshness(), "aged": Freshness(max_age_s=600), "young": Freshness()}
AGE_MS = 20 * MINUTE_MS


@dataclass
class Running:
    """Of `plain` and `aged` a generation holds `e0` to `e39`; `young` has none. Redis is theirs alone."""

    api: ApiProcess
    server: RedisServer
    redis: "Redis[bytes]"

    def reason(self, model: str, entity: str, **headers: str) -> str | None:
        answer = self.api.client.get(f"/v1/models/{model}/predictions/{entity}", headers=headers)
        return answer.json().get("miss_reason")

    def scraped(self) -> Scraped:
        return Scraped(self.api.client.get("/metrics").text)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "token").write_text(TOKEN)
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        tier, now_ms = [], redis_ms(redis)
        for model, freshness in MODELS.items():
            small = Small(folder, small_manifest(model, freshness=freshness), RECORDS, [])
            base = {f"e{place}": BASE for place in range(40)}
            route(redis, small, [load(redis, small, MADE, 1, now_ms - AGE_MS, base)] if model != "young" else [])
            tier.append(Served(small.manifest, small.digest, small_forward))
        settings: dict[str, object] = {"models": list(MODELS), "admin_token_file": str(folder / "token")}
        with (
            WireNode(*tier) as node,
            ApiProcess(folder, redis_url=server.url, nodes=[node.address], **settings) as api,
        ):
            api.wait_ready()
            wait_for(lambda: api.client.get("/readyz").json()["models"]["plain"]["features_without_redis"])
            yield Running(api, server, redis)


def test_time_by_source_and_stage(running: Running) -> None:
    """Live answers pass through every stage, hits through three; buckets reach from 0.1 ms to 10 s."""
    assert running.reason("plain", "e20") is None
    assert running.reason("young", "e20") == "version_not_precomputed"
    wait_for(lambda: running.scraped().total("hotset_answers_total", model="young", source="live"))
    scraped = running.scraped()
    passed = {
        source: {
            labels["stage"]
            for name, pairs in scraped.series
            if name == "hotset_stage_seconds_count"
            and (labels := dict(pairs))["source"] == source
            and scraped.total(name, **labels)
        }
        for source in ("precomputed", "live")
    }
    assert passed == {"precomputed": {"route", "lookup", "post"}, "live": set(STAGES)}
    bounds = {float(dict(pairs)["le"]) for name, pairs in scraped.series if name == "hotset_answer_seconds_bucket"}
    assert (min(bounds), max(bounds - {math.inf})) == (0.0001, 10)
    young = {"model": "young", "source": "live"}
    answers = scraped.total("hotset_answer_seconds_count", **young)
    assert answers == scraped.total("hotset_answers_total", version="1", arm="", **young) > 0
    assert scraped.total("hotset_confidence_count", **young) == answers
    assert scraped.total("hotset_batch_rows_sum", model="young") == answers
    for stage in STAGES:
        spent_s = scraped.total("hotset_stage_seconds_sum", stage=stage, **young)
        assert 0 < spent_s <= scraped.total("hotset_answer_seconds_sum", **young)


def test_how_the_models_stand(running: Running) -> None:
    wait_for(lambda: running.scraped().total("hotset_warm_replicas"))
    scraped = running.scraped()
    for model in ("plain", "aged"):
        age_s = scraped.total("hotset_generation_age_seconds", model=model)
        assert AGE_MS / 1e3 <= age_s < AGE_MS / 1e3 + 60
        assert scraped.total("hotset_generation_rows", model=model) == 40
        assert scraped.total("hotset_warm_replicas", model=model) == 1
    assert math.isnan(scraped.total("hotset_generation_age_seconds", model="young"))
    assert scraped.total("hotset_level", part="redis_lookup", what="open") == 1
    assert scraped.total("hotset_level", part="api", what="workers") == 1
    assert scraped.total("hotset_disk_free_bytes") > 0


def test_what_l1_and_the_write_back_do(running: Running) -> None:
    def events() -> tuple[float, ...]:
        scraped = running.scraped()
        told = (("l1", "hits"), ("l1", "misses"), ("write_back", "written"))
        return tuple(scraped.total("hotset_events_total", part=part, event=event) for part, event in told)

    before = events()
    for _ in range(3):
        running.reason("plain", "e21")
    running.reason("plain", "e51")
    hits, misses, written = before
    wait_for(lambda: events() == (hits + 2, misses + 2, written + 1), what="the counts")
    assert running.scraped().total("hotset_level", part="l1", what="entries") >= 1


@pytest.mark.long
def test_without_a_log_there_are_answers_and_nothing_of_them(running: Running, tmp_path: Path) -> None:
    """`API_REQUEST_LOG`, for measuring what log and metrics cost."""
    settings = {"redis_url": running.server.url, "models": ["plain"], "request_log": "false"}
    with ApiProcess(tmp_path, **settings, allowed_bundle_urls=[str(running.api.folder)]) as api:
        api.wait_ready()
        for entity in ("e1", "e59"):
            answer = api.client.get(f"/v1/models/plain/predictions/{entity}")
        assert answer.json()["code"] == "live_unavailable"
        wait_for(lambda: "hotset_generation_age_seconds" in api.client.get("/metrics").text, what="a fold")
        scraped = Scraped(api.client.get("/metrics").text)
        assert scraped.total("hotset_answers_total") == 0
        assert list((api.state / "log").glob("*.arrows")) == []


def test_every_reason_of_a_miss_is_counted(running: Running) -> None:
    """The last test here: it ends with Redis lost."""
    wanted = dict(_reasons_with_redis(running)) | dict(_reasons_without_redis(running))
    assert set(wanted) == set(MissReason), "each reason that there is"

    def uncounted() -> list[str]:
        scraped = running.scraped()
        return [
            reason
            for reason, model in wanted.items()
            if not scraped.total("hotset_misses_total", model=model, version="1", reason=reason)
        ]

    wait_for(lambda: not uncounted(), what=f"the counts of {uncounted()}")
    is_open = ("hotset_level", (("part", "redis_lookup"), ("what", "open")))
    wait_for(lambda: running.scraped().total(is_open[0], **dict(is_open[1])) == 0, what="the gauge of the breaker")
    assert is_open in running.scraped().series, "0, and not left out"


def _reasons_with_redis(running: Running) -> Iterator[tuple[str, str]]:
    """Each with the model whose answer had it."""
    plain = "/v1/models/plain"
    assert running.reason("plain", "e50") == "not_selected"
    assert running.api.client.get(f"{plain}/predictions/nobody").json()["code"] == "unknown_entity"
    assert running.reason("aged", "e1") == "expired"
    assert running.reason("young", "e1") == "version_not_precomputed"
    assert running.reason("plain", "e2", **{"Cache-Control": "no-cache"}) == "no_cache"
    brought = {"entity": "e3", "features": RECORDS["e3"]}
    assert running.api.client.post(f"{plain}/predict", json=brought).json()["miss_reason"] == "caller_features"
    told = running.api.client.post(
        f"{plain}/predictions:invalidate", json={"entities": ["e4"]}, headers={"Authorization": f"Bearer {TOKEN}"}
    )
    assert told.status_code == 200
    assert running.reason("plain", "e4") == "invalidated"
    place, other = ((bucket_key("plain", "1", MADE, bucket_of(e.encode(), 1)), e) for e in ("e5", "e6"))
    running.redis.hset(*place, b"\x01junk")
    assert running.reason("plain", "e5") == "corrupt"
    neighbour = running.redis.hget(place[0], "e7")
    assert neighbour is not None
    running.redis.hset(*other, neighbour)
    assert running.reason("plain", "e6") == "foreign"
    yield from {"expired": "aged", "version_not_precomputed": "young"}.items()
    others = ("not_selected", "new_entity", "no_cache", "caller_features", "invalidated", "corrupt", "foreign")
    yield from dict.fromkeys(others, "plain").items()


def _reasons_without_redis(running: Running) -> Iterator[tuple[str, str]]:
    """Redis is slow, then lost while it is asked."""
    running.server.freeze()
    assert running.reason("plain", "e10") == "redis_timeout"
    assert running.reason("plain", "e11") == "breaker_open"
    running.server.thaw()
    wait_for(lambda: running.reason("plain", "e12") is None, what="a hit")
    running.server.freeze()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(running.reason, "plain", "e13")
        time.sleep(0.1)  # well within the budget of a look-up, and enough to send one
        running.server.stop()
        assert asked.result() == "connection_lost"
    yield from dict.fromkeys(("redis_timeout", "breaker_open", "connection_lost"), "plain").items()

"""Workers that are killed are replaced at once and leave nothing that piles up: totals, files, series."""

import os
import signal
import time
from pathlib import Path

import httpx
import pytest
from redis import Redis

from tests.api.fresh_world import BASE, RECORDS
from tests.support.api_process import ApiProcess, wait_for
from tests.support.nights import load, redis_ms, route
from tests.support.publish_small import Small, small_manifest
from tests.support.redis_server import RedisServer
from tests.support.scraped import Scraped

pytestmark = pytest.mark.fault
KILLS = 6


def test_a_worker_that_dies_while_it_is_asked_how_it_is_is_replaced_at_once(tmp_path: Path) -> None:
    with RedisServer() as server, ApiProcess(tmp_path, redis_url=server.url, workers="2") as api:
        wait_for(lambda: len(api.workers()) == 2, what="both workers")
        victim = api.workers()[0]
        os.kill(victim, signal.SIGSTOP)  # it is asked, and does not answer
        time.sleep(1)  # it is asked each half second, and nothing outside shows when
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: victim not in api.workers() and len(api.workers()) == 2, what="another worker")


def test_counters_go_on_and_nothing_piles_up(tmp_path: Path) -> None:
    small = Small(tmp_path, small_manifest("plain"), RECORDS, [])
    with (
        RedisServer() as server,
        Redis.from_url(server.url) as redis,
        ApiProcess(tmp_path, redis_url=server.url, models=["plain"], workers="2") as api,
    ):
        route(redis, small, [load(redis, small, "20261129T0200Z-1", 1, redis_ms(redis), {"e1": BASE})])
        api.wait_ready()

        def scraped() -> Scraped:
            return Scraped(httpx.get(f"{api.base}/metrics", timeout=10).text)

        def ask() -> None:
            for _ in range(20):
                httpx.get(f"{api.base}/v1/models/plain/predictions/e1", timeout=10)

        answers, asked = "hotset_answers_total", 20
        ask()
        wait_for(lambda: scraped().total(answers) == asked, what="the answers of both workers")
        wait_for(lambda: scraped().total("hotset_level", part="api", what="workers") == 2, what="both workers")
        series = len(scraped().series)
        for _ in range(KILLS):
            victim = api.workers()[0]
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda v=victim: v not in api.workers() and len(api.workers()) == 2, 20)  # type: ignore[misc]
            assert scraped().total(answers) == asked, "no total falls, and none is counted twice"
        wait_for(lambda: scraped().total("hotset_level", part="api", what="workers") == 2, 20, "both workers")
        ask()
        wait_for(lambda: scraped().total(answers) == asked + 20, what="the answers of the new workers")
        began_s = time.monotonic()
        found = scraped()
        assert time.monotonic() - began_s < 0.2
        assert len(found.series) == series
        places = {file.stem.rpartition("_")[2] for file in (api.state / "metrics").glob("*.db")}
        assert places == {"0", "1"}, "who comes goes on with the files of who went"
        assert "pid=" not in found.text

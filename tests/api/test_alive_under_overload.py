"""Far more than it can do, and liveness is answered in its second; readiness says what is true; no worker ends."""

import threading
from pathlib import Path

import httpx
import numpy as np
import orjson
import pytest
from redis import Redis

from tests.api.fresh_world import BASE, RECORDS
from tests.bench.load.client import offer
from tests.bench.load.connection import Target
from tests.bench.load.files import Order, Report
from tests.support.api_process import ApiProcess, wait_for
from tests.support.nights import load, redis_ms, route
from tests.support.probing import probed
from tests.support.publish_small import Small, small_forward, small_manifest
from tests.support.redis_server import RedisServer
from tests.support.wire_worker import Served, WireNode

pytestmark = pytest.mark.fault

CONNECTIONS, LOAD_S = 32, 12.0
PATH = "/v1/models/plain/predictions:batch"


def batches(base: str) -> list[bytes]:
    """A thousand items each: hits, and rows that nobody has asked for yet."""
    hits = [f"e{place % 40}" for place in range(700)]
    bodies = []
    for batch in range(100):
        asked = [{"entity": "mine", "features": {"distance": 1000.0 * batch + place}} for place in range(300)]
        bodies.append(orjson.dumps({"items": [*hits, *asked]}))
    head = f"POST {PATH} HTTP/1.1\r\nHost: {base[7:]}\r\nContent-Type: application/json\r\nContent-Length: "
    return [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]


def offered(api: ApiProcess) -> Report:
    target = Target("127.0.0.1", api.port, CONNECTIONS, CONNECTIONS)
    return offer(Order(target, np.empty(0), batches(api.base), patience_s=20.0, closed_s=LOAD_S))


def test_liveness_is_never_late_and_no_worker_is_replaced(tmp_path: Path) -> None:
    small = Small(tmp_path, small_manifest("plain"), RECORDS, [])
    worker = Served(small.manifest, small.digest, small_forward, delay_s=0.3)
    with RedisServer() as server, Redis.from_url(server.url) as redis, WireNode(worker) as node:
        hot = {f"e{place}": BASE for place in range(40)}
        route(redis, small, [load(redis, small, "20261129T0200Z-1", 1, redis_ms(redis), hot)])
        settings: dict[str, object] = {"redis_url": server.url, "models": ["plain"], "workers": "2"}
        with ApiProcess(tmp_path, nodes=[node.address], **settings) as api:
            api.wait_ready()
            workers = api.workers()
            with probed(api.base, ("/healthz", "/readyz")) as wrong:
                loading = threading.Timer(2.0, switch, (api, redis, small, hot))
                loading.start()
                report = offered(api)
                loading.join()
            assert wrong == []
            assert api.workers() == workers
            statuses = {int(raw[9:12]) for raw in report.answers if raw}
            assert statuses <= {200, 503}
            assert 200 in statuses
            wait_for(
                lambda: api.client.get("/v1/models/plain").json()["generation"] == "20261130T0200Z-1",
                what="the generation that came amid it",
            )


def switch(api: ApiProcess, redis: "Redis[bytes]", small: Small, hot: dict[str, float]) -> None:
    """In the midst of it: a body of the largest size, and another generation."""
    headers = {"Content-Type": "application/json"}
    httpx.post(api.base + PATH, content=b"[" + b"7," * ((2 << 20) - 2) + b"7]", headers=headers, timeout=60)
    newer = load(redis, small, "20261130T0200Z-1", 2, redis_ms(redis), hot)
    route(redis, small, [newer], is_first=False)

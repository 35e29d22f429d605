"""A node that is asked for far more than it can do answers health in its second, and no worker of it ends."""

import numpy as np
import orjson
import pytest

from tests.bench.load.client import offer
from tests.bench.load.connection import Target
from tests.bench.load.files import Order
from tests.oip.conftest import json_inputs, random_rows
from tests.support.inference import NodeProcess
from tests.support.oip import INFER
from tests.support.probing import probed

pytestmark = pytest.mark.fault

CONNECTIONS, LOAD_S, ROWS = 32, 8.0, 2_000
HEALTH = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")


async def test_health_does_not_wait_behind_requests(node: NodeProcess) -> None:
    body = orjson.dumps({"inputs": json_inputs(random_rows(ROWS))})
    host, _, port = node.http_url.removeprefix("http://").partition(":")
    head = f"POST {INFER} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    target = Target(host, int(port), CONNECTIONS, CONNECTIONS)
    workers = node.worker_pids
    with probed(node.http_url, HEALTH) as wrong:
        report = offer(Order(target, np.empty(0), [head.encode() + body], patience_s=40.0, closed_s=LOAD_S))
    assert wrong == []
    assert node.worker_pids == workers
    statuses = {int(raw[9:12]) for raw in report.answers if raw}
    assert 503 in statuses, "no overload"
    assert statuses <= {200, 503}

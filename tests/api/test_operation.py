"""What operators look at: readiness, metrics with a bounded number of series, the documentation page."""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

from tests.api.conftest import World
from tests.api.test_http_protocol import Client
from tests.support.api_process import wait_for
from tests.support.request_log_reading import read_log


def series(world: World) -> set[str]:
    text = world.client.get("/metrics").text
    return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


def total(world: World, name: str) -> float:
    for line in world.client.get("/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0


def test_readiness_tells_of_each_model(world: World) -> None:
    answer = world.client.get("/readyz")
    told = answer.json()
    assert (answer.status_code, told["ready"], told["draining"], told["redis"]) == (200, True, False, "connected")
    assert told["models"]["007"]["warm_replicas"] == 1
    assert told["models"]["safe"]["generation"] is None
    assert told["models"]["safe"]["ready"] is True
    assert told["models"]["unborn"] == {"ready": False, "reason": "there is no routes document yet"}


def test_a_hit_reaches_metrics_and_log(world: World) -> None:
    name = 'hotset_answers_total{arm="",model="007",source="precomputed",version="1"}'
    before = total(world, name)
    answer = world.client.get("/v1/models/007/predictions/hot141", headers={"X-Request-Id": "seen-1"})
    wait_for(lambda: total(world, name) > before, what="the metric")
    rows = read_log(world.api, "007", lambda rows: [row for row in rows if row["request_id"] == "seen-1"])
    (row,) = [row for row in rows if row["request_id"] == "seen-1"]
    document = answer.json()
    assert (row["entity"], row["source"], row["version"], row["generation"]) == (
        "hot141",
        "precomputed",
        "1",
        document["generation"],
    )
    assert (row["status"], row["label"], row["miss_reason"]) == (200, document["label"], None)
    assert row["total_us"] >= row["lookup_us"] > 0
    assert abs(row["time"].timestamp() * 1000 - row["age_ms"] - 1_795_831_200_000) < 2


def test_answers_that_are_written_together_leave_the_times_of_each(world: World) -> None:
    """All requests are there when the server goes on: it answers many of them in one turn of its loop."""
    path = "/v1/models/007/predictions/hot141"
    world.client.get(path)  # now in L1
    # Rows of two forms: ids of two lengths, one after another and in turn.
    ids = [f"together-{number:0{3 if number < 10 or number % 2 else 9}}" for number in range(30)]
    with ExitStack() as open_connections:
        clients = {name: open_connections.enter_context(Client(world)) for name in ids}
        os.killpg(world.api.pid, signal.SIGSTOP)
        try:
            for name, client in clients.items():
                client.send(f"GET {path} HTTP/1.1\r\nhost: h\r\nx-request-id: {name}\r\n\r\n".encode())
        finally:
            began_s = time.monotonic()
            os.killpg(world.api.pid, signal.SIGCONT)
        timings = {name: client.answer()[1]["server-timing"] for name, client in clients.items()}
        # The server may be held up once more before it asks the clock.
        at_most_us = 1e6 * (time.monotonic() - began_s + 1.0)
    rows = read_log(world.api, "007", lambda rows: {*ids} <= {row["request_id"] for row in rows})
    mine = [row for row in rows if row["request_id"] in clients]
    assert sorted(row["request_id"] for row in mine) == sorted(ids)
    for row in mine:
        stages_us = [row[f"{stage}_us"] for stage in ("route", "lookup", "post")]
        told = "route;dur={:.3f}, lookup;dur={:.3f}, post;dur={:.3f}".format(*(us / 1e3 for us in stages_us))
        assert timings[row["request_id"]] == told
        assert sum(stages_us) <= row["total_us"] <= at_most_us, row


def test_errors_are_rows_too(world: World) -> None:
    world.client.get("/v1/models/007/predictions/nobody", headers={"X-Request-Id": "seen-2"})
    world.client.post("/v1/models/007/predict", content=b"{", headers={"X-Request-Id": "seen-3"})
    wanted = {"seen-2": (404, "unknown_entity"), "seen-3": (422, "invalid_request")}
    rows = read_log(world.api, "007", lambda rows: wanted.keys() <= {row["request_id"] for row in rows})
    found = {row["request_id"]: (row["status"], row["code"]) for row in rows if row["request_id"] in wanted}
    assert found == wanted


def test_series_do_not_grow_with_what_callers_send(world: World) -> None:
    world.client.get("/v1/models/nobody/predictions/x")
    world.client.get("/v1/models/007/predictions/hot1")
    wait_for(lambda: 'hotset_problems_total{code="unknown_model",model=""}' in series(world), what="the series")
    before = series(world)
    for place in range(300):
        world.client.get(f"/scan/{place}.php")
        world.client.get(f"/v1/models/m{place}/predictions/x", headers={"traceparent": f"00-{place:032x}-a-01"})
        world.client.request(f"FOO{place}", "/v1/models/007/predictions/hot1", headers={"X-Version": f"v{place}"})
        world.client.get("/v1/models/007/predictions/hot1", headers={"X-Request-Id": f"scan-{place}"})
    counted = total(world, 'hotset_problems_total{code="unknown_model",model=""}')
    wait_for(
        lambda: total(world, 'hotset_problems_total{code="unknown_model",model=""}') >= counted, what="the counter"
    )
    read_log(world.api, "007", lambda rows: "scan-299" in {row["request_id"] for row in rows})
    assert series(world) == before


def test_docs_need_no_internet(world: World) -> None:
    page = world.client.get("/docs").text
    assert "//cdn" not in page
    assert "https://" not in page
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css"):
        assert asset in page
        assert len(world.client.get(f"/docs/assets/{asset}").content) > 50_000


def test_the_worker_loads_nothing_heavy(world: World) -> None:
    (pid,) = world.api.workers()
    maps = Path(f"/proc/{pid}/maps").read_text()
    assert "libtorch" not in maps
    assert "pyspark" not in maps

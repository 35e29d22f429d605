"""The replica's entry in Redis, on a real Valkey; and that serving does without."""

from pathlib import Path

import orjson
import pytest

from schemas.bundle import Bundle
from schemas.keys import REPLICAS_KEY
from tests.inference.test_node import random_rows
from tests.support.inference import NodeProcess, address_of, eventually
from tests.support.site import running_valkey
from tests.support.wire_client import Document, WireClient


async def test_a_replica_announces_itself_and_serves_on_without_redis(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle
) -> None:
    with running_valkey(tmp_path) as (url, client):

        def entry() -> Document:
            value = client.hget(REPLICAS_KEY, "replica-7")
            return orjson.loads(value) if value else {"versions": [{"state": "absent"}]}

        with NodeProcess.run(
            tmp_path / "cache", [address_of(bundle)], [bundles_folder], redis_url=url, name="replica-7"
        ) as node:
            (address,) = await node.ready(bundle.digest)
            await eventually(lambda: entry()["versions"][0]["state"] == "ready", "it is announced as ready")
            found = entry()
            seconds, _ = client.time()
            assert abs(found["at_ms"] - 1000 * seconds) < 10_000
            assert found["address"] == node.wire_address
            assert f"http://{found['http']}" == node.http_url
            assert found["versions"][0]["address"] == address
            assert found["versions"][0]["tau0_ms"] >= 0
            assert found["profile"]["versions"][0]["measured"][0]["rows"] == 1

            client.shutdown(nosave=True)
            async with WireClient.connect(address) as worker:
                await worker.ask(bundle.digest, random_rows(1))
            assert (await node.get("/readyz")).status_code == 200
            node.terminate()
            assert await node.wait() == 0


@pytest.mark.fault
async def test_a_drained_replica_takes_its_name_back(tmp_path: Path, bundles_folder: Path, bundle: Bundle) -> None:
    with (
        running_valkey(tmp_path) as (url, client),
        NodeProcess.run(
            tmp_path / "cache", [address_of(bundle)], [bundles_folder], redis_url=url, name="replica-8"
        ) as node,
    ):
        await node.ready(bundle.digest)
        await eventually(lambda: client.hexists(REPLICAS_KEY, "replica-8"), "it is announced")
        node.terminate()
        assert await node.wait() == 0
        assert not client.hexists(REPLICAS_KEY, "replica-8")

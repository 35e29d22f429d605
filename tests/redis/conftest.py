"""One node for the tests of what publishing asks of the live tier: starting a worker means importing torch."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from redis import Redis

from schemas.bundle import Bundle
from schemas.keys import REPLICAS_KEY
from tests.support.bundles import linear_bundle
from tests.support.inference import NodeProcess, address_of
from tests.support.live_night import LiveNight, twin
from tests.support.redis_server import RedisServer
from tests.support.released import Released
from tests.support.wire_client import Document

REPLICA = "replica-1"
TOKEN = "let-me-in"


@dataclass
class LiveTier:
    """A node that announces itself in database 0 of a server of its own, and has `bundle` warm.

    Attributes:
        twin: another bundle of the same model and version, which the node does not have.
        next_bundle: version 2, which it does not have at the start.
    """

    server: RedisServer
    node: NodeProcess
    token_file: Path
    bundle: Bundle
    twin: Bundle
    next_bundle: Bundle

    def announcement(self) -> Document:
        """As the node has written it last."""
        with Redis.from_url(self.server.url) as client:
            found: Document = orjson.loads(client.hget(REPLICAS_KEY, REPLICA) or b"{}")
            return found


@pytest.fixture(scope="session")
def live_tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveTier]:
    folder = tmp_path_factory.mktemp("live-tier")
    bundle = linear_bundle(folder / "tiny-1", version="1", seed=1, scale=0.5)
    other, next_bundle = twin(bundle, folder / "twin-1", "1"), twin(bundle, folder / "tiny-2", "2")
    token_file = folder / "token"
    token_file.write_text(f"{TOKEN}\n")
    with (
        RedisServer() as server,
        NodeProcess.run(
            folder / "cache",
            [address_of(bundle)],
            [folder],
            redis_url=server.url,
            admin_token=token_file,
            name=REPLICA,
        ) as node,
    ):
        found = LiveTier(server, node, token_file, bundle, other, next_bundle)
        _wait_until_warm(found)
        yield found


def _wait_until_warm(tier: LiveTier) -> None:
    end_s = time.monotonic() + 60
    while not any(one["state"] == "ready" for one in tier.announcement().get("versions", [])):
        assert time.monotonic() < end_s, f"the node did not get warm: {tier.node.logs}"
        time.sleep(0.05)


@pytest.fixture
def night(live_tier: LiveTier, tmp_path: Path) -> Iterator[LiveNight]:
    """In database 1, which no node writes to: which replicas are known there, the test says."""
    url = f"{live_tier.server.url.rpartition('/')[0]}/1"
    with Redis.from_url(url) as client:
        client.flushdb()
        yield LiveNight(tmp_path, url, client)


@pytest.fixture
def made(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Released]:
    with Redis.from_url(redis_url) as client:
        found = Released(tmp_path, redis_url, client)
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def two(made: Released) -> Released:
    made.active(27, 10)
    made.active(28, 20)
    return made

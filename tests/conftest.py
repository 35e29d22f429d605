"""Fixtures that tests of several parts share."""

from collections.abc import Iterator

import pytest
from redis import Redis

from tests.support.redis_cluster import ClusterServers, running_cluster
from tests.support.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One Valkey for the whole session; a test that stops or freezes a server starts one of its own."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[ClusterServers]:
    """One cluster for the whole session, which takes seconds to form; a test that kills nodes starts its own."""
    with running_cluster() as servers:
        yield servers


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """An empty database."""
    with Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url

"""Two servers for most tests of the tier, each test finding them as new."""

from collections.abc import Iterator

import pytest

from tests.foreign.servers import OipServer


@pytest.fixture(scope="module")
def both_servers() -> Iterator[tuple[OipServer, OipServer]]:
    with OipServer() as one, OipServer() as other:
        yield one, other


@pytest.fixture
def servers(both_servers: tuple[OipServer, OipServer]) -> tuple[OipServer, OipServer]:
    """Both as new."""
    for server in both_servers:
        server.behave()
    return both_servers

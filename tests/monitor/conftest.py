"""One Valkey for all, one site a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.support.site import running_valkey


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, redis.Redis]]:
    folder: Path = tmp_path_factory.mktemp("valkey")
    with running_valkey(folder) as found:
        yield found

"""One world for the drills of a file; each goes on from the one before."""

from collections.abc import Iterator

import pytest

from tests.drills.world import PERSISTENT, World, running_world


@pytest.fixture(scope="module")
def options() -> tuple[str, ...]:
    """Of the server; a file may have others."""
    return PERSISTENT


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, options: tuple[str, ...]) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("drills"), options) as world:
        yield world

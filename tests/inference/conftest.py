"""Bundles for these tests, and one node that most of them share: starting a worker means importing torch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.bundle import Bundle
from tests.support.bundles import linear_bundle
from tests.support.inference import NodeProcess, address_of

WRONG_DIGEST = "ab" * 32
TAU0_MS, ALPHA_MS = 20.0, 0.5
MAX_BATCH_ROWS = 16
MAX_QUEUED_ROWS = 64


@pytest.fixture(scope="session")
def bundles_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture(scope="session")
def bundle(bundles_folder: Path) -> Bundle:
    return linear_bundle(bundles_folder / "tiny-1", version="1", seed=1)


@pytest.fixture(scope="session")
def other_bundle(bundles_folder: Path) -> Bundle:
    return linear_bundle(bundles_folder / "tiny-2", version="2", seed=2)


@pytest.fixture(scope="session")
def node(
    tmp_path_factory: pytest.TempPathFactory, bundles_folder: Path, bundle: Bundle, other_bundle: Bundle
) -> Iterator[NodeProcess]:
    """Two versions that serve, and one whose digest is not its bundle's."""
    addresses = [address_of(bundle), address_of(other_bundle), f"{bundle.folder}@{WRONG_DIGEST}"]
    with NodeProcess.run(
        tmp_path_factory.mktemp("cache"),
        addresses,
        [bundles_folder],
        device=f"emulated:{TAU0_MS},{ALPHA_MS}",
        max_batch_rows=MAX_BATCH_ROWS,
        max_queued_rows=MAX_QUEUED_ROWS,
        name="replica-1",
    ) as running:
        yield running

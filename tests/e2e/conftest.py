"""One small demo for all end-to-end tests: the real stack, the real night by Airflow, real flights."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.demo.run import DemoOptions, DemoOutcome, run_demo
from infra.local.settings import StackSettings
from infra.local.stack import LocalStack
from tests.e2e.bare_torch import Expected, expected_outputs


@pytest.fixture(scope="session")
def settings() -> Iterator[StackSettings]:
    # Not pytest's own folder: its path would be too long for a Unix socket.
    folder = Path(tempfile.mkdtemp(prefix="hotset-e2e-"))
    yield StackSettings.on_free_ports(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def options(settings: StackSettings) -> DemoOptions:
    return DemoOptions(settings, factor=40, replay_s=15.0, is_small=True)


@pytest.fixture(scope="session")
def demo(options: DemoOptions) -> Iterator[DemoOutcome]:
    """The demo as `make demo` runs it, but smaller; its stack runs until the tests are over."""
    try:
        yield run_demo(options)
    finally:
        LocalStack(options.settings).stop()


@pytest.fixture(scope="session")
def expected(demo: DemoOutcome) -> Expected:
    return expected_outputs(demo.night)

"""What a page reads from where nothing runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from online.monitor.settings import MonitorSettings
from online.monitor.sources import Sources


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Sources]:
    """Of the model `delay`: an empty data root, which is `tmp_path`, and a Redis that is not there."""
    settings = MonitorSettings(
        models=("delay",),
        data_url=str(tmp_path),
        redis_url="redis://127.0.0.1:1/0",  # type: ignore[arg-type]
        streams_dir=None,
        state_dir=None,
        redis_timeout_s=0.05,
    )
    with Sources(settings) as opened:
        yield opened

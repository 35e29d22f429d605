"""A night that `begin` refuses, run by `airflow dags test` as `python -m infra.airflow run` does."""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.airflow.night import NIGHT_MARK, NightFailed, run_night
from infra.local.programs import process_environment
from infra.local.settings import StackSettings
from infra.local.stack import LocalStack
from infra.local.supervision import marked_pids
from tests.support.bundles import MODEL, linear_bundle

pytestmark = [pytest.mark.airflow, pytest.mark.fault]


def test_a_night_in_the_future_is_refused_in_words_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    bundle = linear_bundle(tmp_path / "bundle")
    with tempfile.TemporaryDirectory(prefix="hotset-night-") as folder:
        settings = StackSettings.on_free_ports(Path(folder))
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "BATCH_ALLOWED_BUNDLE_URLS": json.dumps([str(tmp_path)])}
        told: list[str] = []
        with LocalStack(settings, process_environment(settings, env)) as stack:
            stack.start(["valkey"])
            with pytest.raises(NightFailed, match=r"(?s)step begin failed.*lies in the future") as failure:
                run_night(
                    settings,
                    [{"model": MODEL, "bundle": str(tmp_path / "bundle"), "digest": bundle.digest}],
                    datetime.now(UTC) + timedelta(days=1),
                    told.append,
                    env,
                    fail_fast=False,
                )
        assert "refused" in str(failure.value)
        assert [line for line in told if line.startswith("features")] == []
        assert not (settings.data / "runs").exists()
        assert marked_pids(f"{NIGHT_MARK}=") == []

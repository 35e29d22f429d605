"""What the process loads, and what it refuses to start with."""

import subprocess
import sys
from pathlib import Path

import pytest

from online.monitor.settings import MonitorSettings
from schemas.settings import BadSettings, load_settings

HOME = Path(__file__).resolve().parents[2]
FORBIDDEN = ("torch", "pyspark", "runtime", "batch_scoring", "online.api", "online.inference")


def test_loads_neither_models_nor_the_other_processes() -> None:
    code = f"import sys, online.monitor.__main__; print([n for n in {FORBIDDEN!r} if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("MONITOR_MODELS", '["Delay"]', "is not a model name"),
        ("MONITOR_MODELS", '["a", "a"]', "a name is given twice"),
        ("MONITOR_MODELS", "[]", "MONITOR_MODELS"),
        ("MONITOR_SLO_MS", "0", "MONITOR_SLO_MS"),
    ],
)
def test_bad_settings_are_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadSettings, match=words):
        load_settings(MonitorSettings)


def test_the_redis_url_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_REDIS_URL", "redis://:hidden@127.0.0.1/0")
    assert "hidden" not in repr(load_settings(MonitorSettings))


def test_an_empty_streams_folder_means_parquet_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_STREAMS_DIR", "")
    assert load_settings(MonitorSettings).streams_dir is None

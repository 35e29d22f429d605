"""Rows of a forward: settings, bundle and profile."""

from pathlib import Path

import orjson
import pytest

from batch_scoring.runs import Refused
from batch_scoring.scoring.forward_rows import forward_rows
from batch_scoring.settings import BatchSettings
from schemas.manifest import Manifest
from tests.support.publish_small import small_manifest

# Throughput doubles up to 16 rows, and hardly grows from there.
MEASURED = {1: 10.0, 2: 10.1, 4: 10.2, 8: 10.5, 16: 11.0, 32: 21.5}


def manifest(most: int) -> Manifest:
    return small_manifest().model_copy(update={"max_batch_rows": most})


def profile(folder: Path, **changed: object) -> Path:
    points = [{"rows": rows, "batch_ms": ms} for rows, ms in MEASURED.items()]
    document = {"model": "delay", "version": "1", "device": "cpu", "measured": points} | changed
    path = folder / "profile.json"
    path.write_bytes(orjson.dumps(document))
    return path


def test_without_a_profile_the_smaller_of_setting_and_bundle() -> None:
    settings = BatchSettings(score_batch_rows=512)
    assert forward_rows(settings, manifest(1024)) == 512
    assert forward_rows(settings, manifest(32)) == 32


def test_with_a_profile_no_more_than_pays(tmp_path: Path) -> None:
    settings = BatchSettings(score_profile=profile(tmp_path))
    assert forward_rows(settings, manifest(1024)) == 16
    assert forward_rows(settings, manifest(8)) == 8


def test_a_profile_of_another_version_is_not_used(tmp_path: Path) -> None:
    settings = BatchSettings(score_profile=profile(tmp_path, version="2"))
    assert forward_rows(settings, manifest(1024)) == 1024


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"measured": []}, "measured: List should have at least 1 item"),
        ({"measured": [{"rows": 4, "batch_ms": 1.0}] * 2}, "a batch size stands twice"),
        ({"measured": [{"rows": 4, "batch_ms": 0.0}]}, "measured.0.batch_ms: Input should be greater than 0"),
    ],
)
def test_a_profile_that_is_none_is_refused_in_words(
    tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    settings = BatchSettings(score_profile=profile(tmp_path, **changed))
    with pytest.raises(Refused, match=message):
        forward_rows(settings, manifest(1024))


def test_a_profile_that_is_not_there_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"BATCH_SCORE_PROFILE: .*none\.json: No such file"):
        forward_rows(BatchSettings(score_profile=tmp_path / "none.json"), manifest(1024))

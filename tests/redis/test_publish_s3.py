"""Score files on S3: published, gone on with, verified, found when they are damaged, and swept, as in a folder."""

from collections.abc import Iterator

import fsspec
import numpy as np
import pytest
from redis import Redis

from batch_scoring.publishing.generation import need_verified
from batch_scoring.publishing.publish_job import publish
from batch_scoring.publishing.retire import DELETED
from batch_scoring.publishing.verify import verify
from batch_scoring.runs import Run
from batch_scoring.score_files import DamagedScores
from batch_scoring.settings import BatchSettings
from schemas.names import run_path
from tests.redis.test_publish import Half
from tests.support.s3 import BUCKET, running_s3
from tests.support.scored import GENERATION, MODEL, publish_here, scored, stored, write_scores

pytestmark = pytest.mark.long

ENTITIES = [f"F{i}" for i in range(2000)]


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    with running_s3():
        yield f"s3://{BUCKET}/data"


@pytest.fixture
def settings(redis_url: str, root: str) -> BatchSettings:
    return BatchSettings.model_validate({"redis_url": redis_url, "data_url": root})


@pytest.fixture
def run(root: str) -> Run:
    return scored(root, ENTITIES)


def test_a_job_that_was_killed_goes_on_and_what_it_wrote_is_verified(
    run: Run, settings: BatchSettings, redis_url: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        publish(run, settings, Half())
    assert publish_here(run, settings) == [2, 3]
    found = verify(run, settings)
    assert (found["rows"], found["read_back"]) == (len(ENTITIES), 1000)
    assert found["checksum"] == run.need_report("score")["checksum"]
    with Redis.from_url(redis_url) as redis:
        assert stored(redis, run).keys() == {entity.encode() for entity in ENTITIES}
        need_verified(redis, run)


@pytest.mark.parametrize("step", ["publish", "verify"])
def test_a_part_that_was_changed_is_named_and_has_the_night_scored_again(
    run: Run, settings: BatchSettings, step: str
) -> None:
    if step == "verify":
        publish_here(run, settings)
    filesystem, path = fsspec.core.url_to_fs(run.place("scores/part-00002.parquet"))
    filesystem.pipe_file(path, filesystem.cat_file(path)[:-1])
    with pytest.raises(DamagedScores, match=r"part-00002.parquet .* run score again"):
        publish_here(run, settings) if step == "publish" else verify(run, settings)
    assert run.report("score") is None


def test_what_an_earlier_night_left_is_swept_by_its_run_folder(
    run: Run, settings: BatchSettings, root: str, redis_url: str
) -> None:
    runs = []
    for token, generation in enumerate((GENERATION, "20261129T0200Z-1"), start=1):
        url = f"{root}/{run_path(MODEL, generation)}/run.json"
        runs.append(run.model_copy(update={"generation": generation, "token": token, "url": url}))
        runs[-1].save()
        write_scores(runs[-1], ENTITIES, np.zeros((len(ENTITIES), 2), np.float32), parts=1)
        publish_here(runs[-1], settings)
    older, newer = runs
    assert older.report(DELETED)
    with Redis.from_url(redis_url) as redis:
        assert stored(redis, older) == {}
        assert len(stored(redis, newer)) == len(ENTITIES)

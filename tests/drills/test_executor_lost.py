"""An executor is killed when part of a stage of select or score is done: the same set, the same checksum.

Ties at the cut of the budget are broken by the entity's bytes; of several rows of an entity one counts.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills.cluster import Submitted
from tests.support.api_process import wait_for
from tests.support.night import SmallNight
from tests.support.site import running_valkey

pytestmark = [pytest.mark.spark, pytest.mark.fault]

ENTITIES = [f"F{i:04d}" for i in range(5000)]


def environment(night: SmallNight) -> dict[str, str]:
    """Half of the rows are duplicates, which are rejected."""
    return {**night.environment(), "BATCH_MAX_REJECT_SHARE": "0.6"}


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallNight]:
    folder = tmp_path_factory.mktemp("night")
    with running_valkey(folder) as (url, redis), pytest.MonkeyPatch.context() as patch:
        small = SmallNight(folder, url, redis)
        for name, value in environment(small).items():
            patch.setenv(name, value)
        # Every entity twice, with other features the second time; each is asked for as often as any other.
        small.write_tables([*ENTITIES, *ENTITIES])
        small.write_log(dict.fromkeys(ENTITIES, 1))
        yield small


def test_the_same_set_and_checksum(night: SmallNight, tmp_path: Path) -> None:
    begun = night.begin()
    night.run_all(begun, until="score")
    folder = Path(str(begun["run"])).parent
    chosen, checksum = hot(folder), night.report(begun, "score")["checksum"]
    assert len(chosen) == 2500
    for step, job in (("select", "hotset/__main__.py"), ("score", "scoring/__main__.py")):
        (folder / f"report-{step}.json").unlink()
        scratch = tmp_path / step
        scratch.mkdir()
        with Submitted(job, str(begun["run"]), environment(night), scratch) as submitted:
            if step == "select":
                submitted.executor_with("shuffle_*.index").kill()
            else:
                wait_for(lambda: list(folder.glob("_scoring-*/scored*")), 150, "a split that is scored")
                submitted.an_executor().kill()
            assert submitted.wait() == 0, submitted.said
            assert "Lost executor" in submitted.said
    assert hot(folder) == chosen
    assert night.report(begun, "score")["checksum"] == checksum
    night.run_all(begun, until="verify")
    assert night.report(begun, "verify")["checksum"] == checksum


def hot(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    return list(pq.read_table(folder / "hotset")["entity"].to_pylist())

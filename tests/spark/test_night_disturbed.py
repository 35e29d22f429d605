"""Nights that lose something on the way, or meet another night: what is live is whole, and a run can go on."""

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_scoring.releases.__main__ import main as releases_main
from schemas import keys
from schemas.arrow import HOT_SET
from tests.support.night import AS_OF, SmallNight
from tests.support.stalling_proxy import StallingProxy

pytestmark = [pytest.mark.spark, pytest.mark.fault]

FLIGHTS = [f"F{i:02d}" for i in range(20)]
HOME = Path(__file__).resolve().parents[2]


def ready(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log(dict.fromkeys(FLIGHTS, 2))


def generations(night: SmallNight) -> set[str]:
    return {key.decode().split(":")[4] for key in night.redis.keys("hs:tiny:g:*")}


def test_what_redis_lost_is_never_activated_and_comes_back_with_the_same_run(night: SmallNight) -> None:
    ready(night)
    begun = night.begin()
    night.run_all(begun, until="publish")
    checksum = night.report(begun, "score")["checksum"]
    bucket = keys.bucket_key("tiny", "1", str(begun["generation"]), 0)

    night.redis.hdel(bucket, "F03")
    assert night.step("verify", begun) == 2
    night.run_all(begun, until="verify")  # publish is done over, by itself

    night.redis.hset(bucket, "F03", b"tampered after verify")
    assert night.step("verify", begun) == 2
    assert night.step("activate", begun) == 2
    night.run_all(begun, until="gate")

    night.redis.delete(bucket)
    assert night.step("activate", begun) == 2
    assert night.routes() is None
    night.run_all(begun)

    rows = Path(str(begun["run"])).parent / "report-features-rows.json"
    computed = rows.read_bytes()
    night.redis.flushall()
    again = night.begin()
    assert again["generation"] == begun["generation"]
    night.run_all(again)
    assert len(night.stored(again)) == 10
    assert night.report(again, "verify")["checksum"] == checksum
    assert rows.read_bytes() == computed  # the table came back from the files, not from another query
    assert night.redis.exists(keys.feature_key("tiny", str(again["generation"]), 0))


def test_publish_killed_half_way_is_finished_by_the_next_call(night: SmallNight, tmp_path: Path) -> None:
    flights = [f"F{i}" for i in range(2000)]
    night.write_tables(flights)
    night.write_log(dict.fromkeys(flights, 1))
    begun = night.begin()
    night.run_all(begun, until="score")
    buckets = int(str(night.report(begun, "score")["buckets"]))
    port = int(night.redis_url.rpartition(":")[2].partition("/")[0])
    with (
        StallingProxy(("127.0.0.1", port), pass_bytes=20_000) as proxy,
        (tmp_path / "publish.log").open("wb") as log,
    ):
        environment = {
            **os.environ,
            "BATCH_REDIS_URL": f"redis://127.0.0.1:{proxy.port}/0",
            "PYTHONPATH": str(HOME),
        }
        environment["BATCH_WRITE_BATCH_ENTITIES"] = "100"
        command = [sys.executable, "-m", "batch_scoring.publishing.publish_job", "--run", str(begun["run"])]
        process = subprocess.Popen(command, env=environment, cwd=HOME, stderr=log, start_new_session=True)
        try:
            assert proxy.stalled.wait(120), (tmp_path / "publish.log").read_text()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert 0 < len(night.redis.keys("hs:tiny:g:*")) < buckets
    assert night.step("verify", begun) == 2
    night.run_all(begun, until="verify")
    assert night.report(begun, "verify")["checksum"] == night.report(begun, "score")["checksum"]
    assert len(night.stored(begun)) == 1000


def test_nights_do_not_pile_up_though_retire_comes_right_after_the_switch(
    night: SmallNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_RETIRE_AFTER_S", "2")  # longer than from activate to retire
    night.write_tables(FLIGHTS)
    night.write_log(dict.fromkeys(FLIGHTS, 2), at=AS_OF - timedelta(days=1))
    loaded = []
    for hour in range(4):
        time.sleep(2.0)  # nights are further apart than that, however fast one is
        begun = night.begin(f"night {hour}", AS_OF - timedelta(hours=5 - hour))
        night.run_all(begun)
        loaded.append(begun["generation"])
        assert loaded[-1] in generations(night)
        # Live, previous, and what was taken out a moment ago.
        assert generations(night) <= set(loaded[-3:])
    assert releases_main(["rollback", "--model", "tiny", "--yes"]) == 0
    document = night.routes()
    assert document
    live = document.live_generation("1")
    assert live
    assert live.id == loaded[-2]
    assert night.redis.exists(keys.bucket_key("tiny", "1", live.id, 0))


def test_another_nights_retire_leaves_a_run_that_began_again_later(night: SmallNight) -> None:
    ready(night)
    first = night.begin("first")
    night.run_all(first, until="gate")
    second = night.begin("second")
    night.run_all(second, until="activate")
    assert str(first["generation"]) not in generations(night)  # its token was too old ever to go live
    first = night.begin("first")  # cleared by hand: it has the newest token now
    night.run_all(first, until="publish")
    assert night.step("retire", second) == 0
    assert str(first["generation"]) in generations(night)

    night.run_all(first)
    document = night.routes()
    assert document
    ordinals = [generation.ordinal for generation in document.versions["1"].generations]
    assert len(ordinals) == len(set(ordinals)) == 2
    assert len(night.stored(first)) == 10


def test_a_failed_nights_leftovers_go_and_its_later_rerun_goes_too(night: SmallNight) -> None:
    ready(night)
    failed = night.begin("failed", AS_OF - timedelta(days=1))
    night.run_all(failed, until="publish")
    good = night.begin("good")
    night.run_all(good)
    assert generations(night) == {good["generation"]}
    tables = {key.decode().split(":")[3] for key in night.redis.keys("hs:tiny:f:*")}
    assert tables == {good["generation"]}
    failed = night.begin("failed", AS_OF - timedelta(days=1))
    night.run_all(failed, until="gate")
    assert night.step("activate", failed) == 2
    night.run_all(night.begin("good"), until="retire")
    assert generations(night) == {good["generation"]}


def test_a_live_generations_name_is_never_given_again(night: SmallNight) -> None:
    ready(night)
    first = night.begin("first")
    night.run_all(first)
    shutil.rmtree(night.data / "runs")
    assert night.begin("second")["generation"] == "20261128T0200Z-2"


def test_score_files_that_were_changed_are_found(night: SmallNight, caplog: pytest.LogCaptureFixture) -> None:
    ready(night)
    begun = night.begin()
    night.run_all(begun, until="publish")
    path = next((Path(str(begun["run"])).parent / "scores").glob("*.parquet"))
    pq.write_table(pq.read_table(path).slice(1), path)
    assert night.step("verify", begun) == 2
    assert "run score again" in caplog.text


def test_an_attempt_with_fewer_entities_leaves_nothing_of_the_one_before(night: SmallNight) -> None:
    flights = [f"F{i}" for i in range(600)]
    night.write_tables(flights)
    night.write_log(dict.fromkeys(flights, 1))
    begun = night.begin()
    night.run_all(begun, until="verify")
    folder = Path(str(begun["run"])).parent
    buckets = int(str(night.report(begun, "score")["buckets"]))
    assert buckets == 4
    hot = next((folder / "hotset").glob("*.parquet"))
    # Everything of bucket 0 goes, and so much more that there are fewer buckets.
    kept = [row for row in pq.read_table(hot).to_pylist() if keys.bucket_of(row["entity"].encode(), 2) == 1][:100]
    pq.write_table(pa.Table.from_pylist(kept, HOT_SET), hot)
    (folder / "report-score.json").unlink()
    night.run_all(begun, until="verify")
    assert night.report(begun, "score")["filled_buckets"] == 1
    prefix = keys.bucket_prefix("tiny", "1", str(begun["generation"]))
    assert {key.decode() for key in night.redis.keys(f"{prefix}*")} == {f"{prefix}1", f"{prefix}manifest"}

"""Parity of what was precomputed with what a real replica answers, and what explains the differences."""

import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from batch_scoring.publishing.parity import parity
from batch_scoring.runs import Run
from schemas.keys import bucket_count, bucket_of, feature_key, field_of
from tests.redis.conftest import REPLICA, LiveTier
from tests.support.bundles import text_bundle
from tests.support.inference import NodeProcess, address_of
from tests.support.list_bundles import topics_bundle, vector_bundle
from tests.support.live_night import ENTITIES, LiveNight, Record, Sample, outputs_of, records
from tests.support.redis_server import free_port
from tests.support.texts import words

COUNTS = ("compared", "equal", "numeric", "feature_drift", "wrong_model")


def counts(report: dict[str, object]) -> tuple[object, ...]:
    return tuple(report[name] for name in COUNTS)


@pytest.fixture
def announced(night: LiveNight, live_tier: LiveTier) -> LiveNight:
    night.announce(REPLICA, live_tier.announcement())
    return night


def test_the_live_tier_answers_what_was_stored(announced: LiveNight, live_tier: LiveTier) -> None:
    run = announced.run(live_tier.bundle)
    report = parity(run, announced.settings, announced.sample(run, live_tier.bundle))
    assert report["skipped"] is None
    assert counts(report) == (1000, 1000, 0, 0, 0)
    assert report["replicas"] == {REPLICA: 1000}
    assert isinstance(report["max_abs_diff"], float)
    assert report["max_abs_diff"] <= 1e-4
    assert (report["worst"], report["not_in_table"], report["other_bundle"]) == ([], 0, [])


def test_values_that_are_off_are_sorted_by_how_much(announced: LiveNight, live_tier: LiveTier) -> None:
    bundle = live_tier.bundle
    run = announced.run(bundle)
    outputs = outputs_of(bundle, list(records(ENTITIES).values()))
    tolerance = bundle.manifest.tolerance
    allowed = tolerance.absolute + tolerance.relative * abs(float(outputs[7, 1]))
    outputs[7, 1] += 4 * allowed
    outputs[9, 0] += 0.25
    report = parity(run, announced.settings, announced.packed(run, ENTITIES, outputs))
    assert counts(report) == (1000, 998, 1, 0, 1)
    worst = report["worst"]
    assert isinstance(worst, list)
    assert [(one["kind"], one["entity"], one["output"]) for one in worst] == [
        ("wrong_model", ENTITIES[9], "late"),
        ("numeric", ENTITIES[7], "minutes"),
    ]
    assert worst[0]["stored"] - worst[0]["live"] == pytest.approx(0.25, abs=1e-4)
    assert worst[0]["replica"] == REPLICA


@pytest.mark.parametrize("off", [3e-4, 1.0])
def test_all_a_little_off_is_another_model_too(announced: LiveNight, live_tier: LiveTier, off: float) -> None:
    run = announced.run(live_tier.bundle)
    outputs = outputs_of(live_tier.bundle, list(records(ENTITIES).values()))
    report = parity(run, announced.settings, announced.packed(run, ENTITIES, outputs + np.float32(off)))
    assert (report["numeric"], report["compared"]) == (0, 1000)
    assert isinstance(report["wrong_model"], int)
    assert report["wrong_model"] > (500 if off < 1 else 999)


def test_features_that_changed_since_are_told_from_a_wrong_model(
    announced: LiveNight, live_tier: LiveTier
) -> None:
    bundle = live_tier.bundle
    run = announced.run(bundle)
    sample = announced.sample(run, bundle)
    changed = records(ENTITIES)
    # Of one the table has other features than the files; of another the files are the ones that were rewritten.
    changed["UA5"]["distance"] = 9000.0
    announced.load_table(run, bundle, {"UA5": changed["UA5"]})
    rewritten = records(ENTITIES) | {"UA6": {"distance": 9000.0, "delay": 1.0, "airline": "DL"}}
    del rewritten["UA7"]
    announced.write_features(run, bundle, rewritten)
    # And one has a value of the model that nothing explains.
    (wrong,) = announced.packed(run, ["UA8"], np.array([[0.9, 700.0]], np.float32))
    sample = [wrong if entity == b"UA8" else (entity, packed) for entity, packed in sample]
    report = parity(run, announced.settings, sample)
    assert counts(report) == (1000, 996, 0, 3, 1)
    worst = report["worst"]
    assert isinstance(worst, list)
    assert {one["entity"] for one in worst if one["kind"] == "feature_drift"} == {"UA5", "UA6", "UA7"}


def test_a_record_of_the_table_that_cannot_be_read_is_drift(announced: LiveNight, live_tier: LiveTier) -> None:
    run = announced.run(live_tier.bundle)
    for entity, value in (("UA1", b"\x01rubbish"), ("UA2", None)):
        key = feature_key(run.model, run.generation, bucket_of(entity.encode(), bucket_count(len(ENTITIES))))
        if value is None:
            announced.redis.hdel(key, field_of(entity.encode()))
        else:
            announced.redis.hset(key, field_of(entity.encode()), value)
    report = parity(run, announced.settings, announced.sample(run, live_tier.bundle))
    assert counts(report) == (1000, 999, 0, 1, 0)
    assert report["not_in_table"] == 1


def test_a_replica_with_another_bundle_is_not_asked(announced: LiveNight, live_tier: LiveTier) -> None:
    run = announced.run(live_tier.twin)
    report = parity(run, announced.settings, announced.sample(run, live_tier.twin))
    assert (report["other_bundle"], report["compared"]) == ([REPLICA], 0)
    assert f"of bundle {live_tier.twin.digest[:12]} warm" in str(report["skipped"])


def test_without_a_replica_it_is_skipped_in_words(night: LiveNight, live_tier: LiveTier) -> None:
    run = night.run(live_tier.bundle)
    sample = night.sample(run, live_tier.bundle)
    assert "no replica" in str(parity(run, night.settings, sample)["skipped"])
    old = live_tier.announcement()
    del old["http"]
    night.announce("old", old)
    night.announce("strange", {"at_ms": "yesterday"})
    assert "no replica that can be asked" in str(parity(run, night.settings, sample)["skipped"])
    assert parity(run, night.settings, [])["skipped"] is None


def test_a_bundle_that_is_gone_skips_it(announced: LiveNight, live_tier: LiveTier, tmp_path: Path) -> None:
    run = announced.run(live_tier.bundle)
    gone = run.model_copy(update={"bundle_url": str(tmp_path / "gone")})
    report = parity(gone, announced.settings, announced.sample(run, live_tier.bundle))
    assert "the bundle cannot be read" in str(report["skipped"])


def test_a_replica_that_is_gone_is_made_up_for_by_another(announced: LiveNight, live_tier: LiveTier) -> None:
    run = announced.run(live_tier.bundle)
    sample = announced.sample(run, live_tier.bundle)
    announced.announce("gone", live_tier.announcement() | {"http": f"127.0.0.1:{free_port()}"})
    report = parity(run, announced.settings, sample)
    assert (report["skipped"], counts(report)) == (None, (1000, 1000, 0, 0, 0))
    assert report["replicas"] == {REPLICA: 1000}


@pytest.mark.fault  # starts a node of its own
def test_lists_and_text_are_compared_too(night: LiveNight, live_tier: LiveTier, tmp_path: Path) -> None:
    numbers: dict[str, Record] = {f"E{i}": {"x": float(i % 11 - 5), "y": float(i % 7)} for i in range(300)}
    texts: dict[str, Record] = {
        f"T{i}": {"text": words(i % 90, i), "number": None if i % 3 else 0.25} for i in range(300)
    }
    bundles = [
        (topics_bundle(tmp_path / "topics"), numbers),
        (vector_bundle(tmp_path / "vector"), numbers),
        (text_bundle(tmp_path / "text"), texts),
    ]
    with NodeProcess.run(
        tmp_path / "cache",
        [address_of(bundle) for bundle, _ in bundles],
        [tmp_path],
        redis_url=night.redis_url,
        name="second",
    ):
        for bundle, found in bundles:
            run = night.run(bundle, entities=found)
            sample = night.sample(run, bundle, found)
            report = _once_warm(night, run, sample)
            assert (report["skipped"], counts(report)) == (None, (300, 300, 0, 0, 0)), bundle.manifest.name
            assert report["not_in_table"] == 0


def _once_warm(night: LiveNight, run: Run, sample: Sample) -> dict[str, object]:
    end_s = time.monotonic() + 60
    while True:
        report = parity(run, night.settings, sample)
        if "warm" not in str(report["skipped"]) or time.monotonic() > end_s:
            return report
        time.sleep(0.1)


@pytest.mark.fault  # starts a node of its own
def test_a_replica_that_dies_in_the_middle_is_made_up_for_by_another(
    night: LiveNight, live_tier: LiveTier, tmp_path: Path
) -> None:
    bundle = live_tier.bundle
    run = night.run(bundle)
    sample = night.sample(run, bundle)
    with NodeProcess.run(
        tmp_path / "cache", [address_of(bundle)], [bundle.folder.parent], device="emulated:100,0", name="second"
    ) as second:
        dying = live_tier.announcement() | {"http": second.http_url.removeprefix("http://")}
        _wait_until_ready(second)
        night.announce("dying", dying)
        killer = threading.Thread(target=_kill_at_work, args=(second,))
        killer.start()
        alone = parity(run, night.settings, sample)
        killer.join()
        assert isinstance(alone["compared"], int)
        assert 0 < alone["compared"] < 1000
        assert alone["equal"] == alone["compared"]
        assert "no replica answers any more; dying: " in str(alone["skipped"])
    night.announce(REPLICA, live_tier.announcement())
    report = parity(run, night.settings, sample)
    assert (report["skipped"], counts(report)) == (None, (1000, 1000, 0, 0, 0))
    assert report["replicas"] == {REPLICA: 1000}


def _wait_until_ready(node: NodeProcess) -> None:
    end_s = time.monotonic() + 60
    while httpx.get(f"{node.http_url}/readyz").status_code != 200:
        assert time.monotonic() < end_s
        time.sleep(0.05)


def _kill_at_work(node: NodeProcess) -> None:
    """Once some batches have been answered."""
    while httpx.get(f"{node.http_url}/v2/models/stats").json()["model_stats"][0]["inference_count"] < 128:
        time.sleep(0.02)
    node.process.kill()

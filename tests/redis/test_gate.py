"""The gate over a real Valkey with the announcement of a real replica: what refuses, and what only warns."""

import pytest

from batch_scoring.files import read_json
from batch_scoring.publishing.gate import gate
from batch_scoring.publishing.parity import parity
from batch_scoring.runs import Refused, Role, Run
from schemas.bundle import Bundle
from schemas.capacity import BatchTime, replica_rows_per_s
from schemas.keys import routes_key
from schemas.routes import Activation, Generation
from schemas.transitions import first_document
from tests.redis.conftest import REPLICA, LiveTier
from tests.support.live_night import ENTITIES, LiveNight, records

FEW = ENTITIES[:200]
TIMES = {"tau0_ms": 10.0, "alpha_ms": 0.5, "max_batch_rows": 64}
# Half of 100 ms holds (50 - 10) / 0.5 = 80 rows, the largest batch is 64: 64 rows in 42 ms, 0.6 of that.
ROWS_PER_S = 0.6 * 64 / 0.042


@pytest.fixture
def night(night: LiveNight, live_tier: LiveTier) -> LiveNight:
    """The replica is announced as it is, but for its T(b), which is fixed."""
    document = live_tier.announcement()
    document["profile"]["versions"] = [one | TIMES for one in document["profile"]["versions"]]
    night.announce(REPLICA, document)
    return night


def ready(night: LiveNight, bundle: Bundle, role: Role, peak_per_s: float | None = 100.0) -> Run:
    """A run that was verified; half of the fullest minute is precomputed, and more of the whole log."""
    some = {entity: record for entity, record in records(ENTITIES).items() if entity in FEW}
    run = night.run(bundle, role, some)
    selected: dict[str, object] = {"coverage_weighted": 0.9, "peak_minute_miss_share": 0.5}
    if peak_per_s is not None:
        selected["peak_minute_requests"] = 60 * peak_per_s
    run.finish("select", selected)
    run.finish("verify", {"parity": parity(run, night.settings, night.sample(run, bundle, some))})
    return run


def serve(night: LiveNight, version: str) -> None:
    """Another version, or this one, is in service, with one generation."""
    offer = Activation(
        model="tiny",
        version=version,
        bundle_url="bundles",
        bundle_digest="a" * 64,
        generation=Generation(
            id="20261127T0200Z-1", ordinal=1, buckets=1, codec=1, rows=200, computed_at_ms=1_795_000_000_000
        ),
        features=None,
        token=1,
    )
    night.redis.set(routes_key("tiny"), first_document(offer, 1_795_000_000_000).model_dump_json())


def test_a_new_version_that_has_earned_it_passes_with_the_numbers(night: LiveNight, live_tier: LiveTier) -> None:
    serve(night, "0")
    report = gate(ready(night, live_tier.bundle, Role.NEW), night.settings)
    assert (report["case"], report["warm_replicas"], report["warnings"]) == ("new version", [REPLICA], [])
    compared = report["parity"]
    assert isinstance(compared, dict)
    assert (compared["compared"], compared["equal"], compared["not_in_table"]) == (200, 200, 0)
    capacity = report["capacity"]
    assert isinstance(capacity, dict)
    assert pytest.approx(replica_rows_per_s(BatchTime(10, 0.5), 64, 50)) == ROWS_PER_S
    assert capacity["capacity_rows_per_s"] == pytest.approx(ROWS_PER_S)
    assert (capacity["tail_per_s"], capacity["cold_per_s"]) == (50.0, 100.0)
    memory = report["memory"]
    assert isinstance(memory, dict)
    # One more generation of each version, 20,000 bytes, and one more table of 50,000.
    assert (memory["versions"], memory["generations_to_come"], memory["needed_bytes"]) == (2, 2, 90_000)


def test_a_tail_beyond_the_replicas_refuses_a_new_version_and_warns_a_refresh(
    night: LiveNight, live_tier: LiveTier
) -> None:
    serve(night, "0")
    run = ready(night, live_tier.bundle, Role.NEW, peak_per_s=2.01 * ROWS_PER_S)
    with pytest.raises(Refused, match=r"tail is 918\.9 live requests/s .* can take 914\.3"):
        gate(run, night.settings)
    serve(night, "1")
    report = gate(run, night.settings)
    assert report["case"] == "refresh"
    assert "tail is 918.9" in str(report["warnings"])


def test_an_empty_cache_and_an_unknown_peak_only_warn(night: LiveNight, live_tier: LiveTier) -> None:
    serve(night, "0")
    report = gate(ready(night, live_tier.bundle, Role.NEW, peak_per_s=1.5 * ROWS_PER_S), night.settings)
    assert "with an empty cache the busiest minute is 1,371.4" in str(report["warnings"])
    report = gate(ready(night, live_tier.bundle, Role.NEW, peak_per_s=None), night.settings)
    assert "the busiest minute of the log is unknown" in str(report["warnings"])


def test_a_version_without_its_bundle_warm_lacks_parity_and_replica(night: LiveNight, live_tier: LiveTier) -> None:
    serve(night, "0")
    run = ready(night, live_tier.twin, Role.NEW)
    with pytest.raises(Refused) as refused:
        gate(run, night.settings)
    for words in (
        "no replica reports version 1 warm",
        "wrong model: replica-1 serves this version's name",
        "was not",
    ):
        assert words in str(refused.value)
    numbers = refused.value.numbers
    assert (numbers["case"], numbers["warm_replicas"]) == ("new version", [])
    assert "used_bytes" in str(numbers["memory"])
    run.refuse("gate", refused.value)
    kept = read_json(run.place("refused-gate.json"))
    assert kept
    assert (kept["reason"], kept["memory"]) == (str(refused.value), numbers["memory"])
    for role, in_service in ((Role.PREVIOUS, "0"), (Role.STABLE, "1"), (Role.DELTA, "1")):
        serve(night, in_service)
        report = gate(ready(night, live_tier.twin, role), night.settings)
        assert (report["case"], report["warm_replicas"]) == ("refresh", [])
        assert "no replica reports version 1 warm" in str(report["warnings"])


def test_one_wrong_answer_is_enough_for_a_new_version(night: LiveNight, live_tier: LiveTier) -> None:
    serve(night, "0")
    run = ready(night, live_tier.bundle, Role.NEW)
    found = run.need_report("verify")
    sample = night.sample(run, live_tier.bundle, {"UA0": records(ENTITIES)["UA0"]})
    other = night.sample(run, live_tier.bundle, {"UA0": records(ENTITIES)["UA150"]})
    assert sample != other
    run.finish("verify", found | {"parity": parity(run, night.settings, other)})
    with pytest.raises(Refused, match="wrong model: 1 of 1 live answers are others: "):
        gate(run, night.settings)


def test_room_that_is_short_refuses_a_new_version_and_warns_the_first_night(
    night: LiveNight, live_tier: LiveTier
) -> None:
    run = ready(night, live_tier.bundle, Role.STABLE)
    used = int(night.redis.info("memory")["used_memory"])
    # Room for all there is and half of the 70,000 bytes to come, beside the tenth that is kept free.
    night.redis.config_set("maxmemory", int((used + 35_000) / 0.9))
    night.redis.config_set("maxmemory-policy", "volatile-lfu")
    try:
        report = gate(run, night.settings)
        assert report["case"] == "first"
        assert "1 more generation(s) of 1 version(s) need about 70,000" in str(report["warnings"])
        serve(night, "0")
        with pytest.raises(Refused, match="raise maxmemory"):
            gate(run, night.settings)
    finally:
        night.redis.config_set("maxmemory", 0)


def test_verify_without_parity_is_not_enough_for_a_new_version(night: LiveNight, live_tier: LiveTier) -> None:
    serve(night, "0")
    run = ready(night, live_tier.bundle, Role.NEW)
    run.finish("verify", {"rows": 200})
    with pytest.raises(Refused, match="verify did not compare it with the live tier"):
        gate(run, night.settings)

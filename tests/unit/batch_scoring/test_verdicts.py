"""The gate's rules by numbers that were reckoned by hand."""

import pytest

from batch_scoring.publishing.memory import Room
from batch_scoring.publishing.verdicts import (
    Case,
    Loads,
    case_of,
    loads_to_come,
    of_capacity,
    of_memory,
    of_parity,
    of_replicas,
)
from batch_scoring.runs import Role
from schemas.routes import Arm, Experiment, Fallback, FeatureTable, Generation, Previous, RoutesDocument, Version

DAY_1, DAY_2, DAY_3 = "20261127T0200Z-1", "20261128T0200Z-1", "20261129T0200Z-1"


def generation(name: str) -> Generation:
    return Generation(id=name, ordinal=1, buckets=1, codec=1, rows=1, computed_at_ms=1)


def table(name: str) -> FeatureTable:
    return FeatureTable(id=name, buckets=1, features=("x",), rows=1, as_of_ms=1)


def document(more: dict[str, tuple[str, ...]] | None = None, stable: str = "1") -> RoutesDocument:
    """Version 1 with two generations, and its two feature tables; `more` versions with their generations."""
    versions = {"1": (DAY_2, DAY_1)} | (more or {})
    return RoutesDocument(
        model="m",
        epoch=1,
        revision=1,
        stable=stable,
        versions={
            name: Version(
                ordinal=1, bundle_url="b", bundle_digest="a" * 64, generations=tuple(map(generation, names))
            )
            for name, names in versions.items()
        },
        features=table(DAY_2),
        previous=Previous(stable="1", generation=DAY_1, features=table(DAY_1)),
    )


def parity(**more: object) -> dict[str, object]:
    found: dict[str, object] = {
        "compared": 1000,
        "equal": 1000,
        "numeric": 0,
        "feature_drift": 0,
        "wrong_model": 0,
    }
    return found | {"worst": [], "other_bundle": [], "skipped": None} | more


@pytest.mark.parametrize(
    ("role", "known", "version", "case"),
    [
        (Role.STABLE, None, "1", Case.FIRST),
        (Role.NEW, None, "1", Case.FIRST),
        (Role.STABLE, document(), "1", Case.REFRESH),
        (Role.NEW, document(), "2", Case.NEW),
        (Role.NEW, document({"2": ()}, "2"), "2", Case.REFRESH),  # it went live, and is computed again
        (Role.PREVIOUS, document({"2": ()}, "2"), "1", Case.REFRESH),
        (Role.DELTA, document(), "1", Case.REFRESH),
        # It began as a refresh; since then another version has gone into service.
        (Role.STABLE, document({"2": ()}, "2"), "1", Case.NEW),
    ],
)
def test_which_case_a_run_is(role: Role, known: RoutesDocument | None, version: str, case: Case) -> None:
    assert case_of(role, known, version) is case


def test_a_version_without_a_warm_replica_lacks_one() -> None:
    assert of_replicas("2", 1).lacks == ()
    assert of_replicas("2", 0).lacks == (
        "no replica reports version 2 warm: its tail would get 503; load it there",
    )


@pytest.mark.parametrize(
    ("found", "lacks", "warnings"),
    [
        (parity(), [], []),
        (None, ["did not compare"], []),
        (parity(compared=0, equal=0, skipped="no replica"), ["was not checked: no replica"], []),
        (parity(equal=999, wrong_model=1), ["wrong model: 1 of 1,000"], []),
        (parity(equal=990, numeric=10), [], ["10 of 1,000 live answers are just outside"]),  # 1 % and no more
        (parity(equal=989, numeric=11), ["11 of 1,000 live answers are outside the tolerance, more than"], []),
        (parity(equal=900, feature_drift=100), [], ["features of 100 of 1,000 entities have changed"]),
        (parity(other_bundle=["r1"]), ["r1 serves this version's name from another bundle"], []),
    ],
)
def test_what_parity_means(found: dict[str, object] | None, lacks: list[str], warnings: list[str]) -> None:
    verdict = of_parity(found, max_numeric_share=0.01)
    assert len(verdict.lacks) == len(lacks)
    assert len(verdict.warnings) == len(warnings)
    for said, wanted in zip((*verdict.lacks, *verdict.warnings), (*lacks, *warnings), strict=True):
        assert wanted in said


def test_the_worst_entities_are_named() -> None:
    worst = {
        "kind": "wrong_model",
        "entity": "UA1",
        "output": "late",
        "stored": 0.25,
        "live": 0.75,
        "replica": "r",
    }
    (said,) = of_parity(parity(equal=999, wrong_model=1, worst=[worst]), 0.01).lacks
    assert said.endswith("live answers are others: late of 'UA1' is 0.75, stored 0.25")


def test_what_will_be_loaded_in_all() -> None:
    # The first night: one more generation and one more table to come.
    assert loads_to_come(Case.FIRST, None, "1", DAY_1) == Loads(1, 1, 1)
    # A refresh: two generations are loaded beside this one.
    assert loads_to_come(Case.REFRESH, document(), "1", DAY_3) == Loads(1, 0, 0)
    # A new version has one of its two; the version that it replaces stays, and has both.
    assert loads_to_come(Case.NEW, document(), "2", DAY_3) == Loads(2, 1, 0)
    # The version before, which has none left of its two.
    back = document({"0": ()}).model_copy(update={"fallback": Fallback(version="0", since_ms=1, features=None)})
    assert loads_to_come(Case.REFRESH, back, "1", DAY_3) == Loads(2, 2, 0)
    # An experiment of version 3, which has one: two versions, of which one lacks one.
    arms = (Arm(name="a", version="1", share=0.5), Arm(name="b", version="3", share=0.5))
    both = document({"3": (DAY_2,)}).model_copy(update={"experiment": Experiment(id="e", salt="s", arms=arms)})
    assert loads_to_come(Case.REFRESH, both, "1", DAY_3) == Loads(2, 1, 0)
    # Version 2, which lacks one, 1 with both, and 3, which lacks one.
    assert loads_to_come(Case.NEW, both, "2", DAY_3) == Loads(3, 2, 0)


@pytest.mark.parametrize(("left", "fits"), [(2_500, True), (2_499, False), (-1, False)])
def test_room_for_what_is_to_come(left: int, fits: bool) -> None:
    # Two generations of 1,000 bytes and a table of 500.
    verdict = of_memory(Room(9_000, 12_000, left), Loads(2, 2, 1), 1_000, 500, reserve=0.1)
    assert (not verdict.lacks) is fits
    assert verdict.numbers["needed_bytes"] == 2_500
    if not fits:
        assert (
            f"Redis uses 9,000 of 12,000 bytes, which leaves {max(0, left):,} beside the 10%" in verdict.lacks[0]
        )
        assert "2 more generation(s) of 2 version(s) need about 2,500" in verdict.lacks[0]


def test_a_redis_without_a_limit_has_room() -> None:
    assert of_memory(Room(9_000, 0, 0), Loads(1, 1, 1), 1 << 40, 0, 0.1).lacks == ()


@pytest.mark.parametrize(
    ("miss_share", "lacks", "warns"),
    [
        (0.30, False, True),  # a tail of 30/s fits into 30/s; 100/s of an empty cache do not
        (0.31, True, False),
        (0.0, False, True),
    ],
)
def test_the_tail_of_the_busiest_minute_against_the_replicas(miss_share: float, lacks: bool, warns: bool) -> None:
    verdict = of_capacity("2", 100.0, miss_share, {"r1": 20.0, "r2": 10.0 + 1e-9})
    assert (bool(verdict.lacks), bool(verdict.warnings)) == (lacks, warns)
    assert verdict.numbers["tail_per_s"] == pytest.approx(100 * miss_share)
    assert verdict.numbers["capacity_rows_per_s"] == pytest.approx(30.0)
    if lacks:
        assert (
            "tail is 31.0 live requests/s (100.0, 31.0% not precomputed), and the 2 replica(s)" in verdict.lacks[0]
        )
    if warns:
        assert "with an empty cache the busiest minute is 100.0 live requests/s" in verdict.warnings[0]


def test_an_empty_cache_that_fits_is_nothing_to_warn_of() -> None:
    assert of_capacity("2", 100.0, 0.5, {"r1": 100.0}).warnings == ()


def test_what_is_not_known_is_said_and_refuses_nothing() -> None:
    verdict = of_capacity("2", None, 0.5, {"r1": 100.0})
    assert (verdict.lacks, len(verdict.warnings)) == ((), 1)
    assert "the busiest minute of the log is unknown" in verdict.warnings[0]
    verdict = of_capacity("2", 100.0, 0.5, {"r1": 60.0, "r2": None})
    assert verdict.lacks == ()
    assert "T(b) of replica r2 is not known" in verdict.warnings[0]
    assert "60.0" in verdict.warnings[1]  # the empty cache, against what is known
    verdict = of_capacity("2", 100.0, 0.5, {"r2": None})
    assert (verdict.lacks, len(verdict.warnings)) == ((), 2)

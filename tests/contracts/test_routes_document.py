"""The routes document: golden text, its transitions, and that older workers read newer documents."""

import json
from pathlib import Path

import pytest

from schemas.routes import Activation, Experiment, FeatureTable, Generation, RoutesDocument
from schemas.transitions import (
    RefusedTransition,
    Retired,
    activate,
    first_document,
    patch,
    renew,
    retire,
    rollback,
    switch,
)

GOLDEN = Path(__file__).parent / "golden" / "routes.json"
DIGEST = "ab" * 32


def generation(day: int, run: int = 1, ordinal: int = 1) -> Generation:
    return Generation(
        id=f"202611{day:02d}T0200Z-{run}", ordinal=ordinal, buckets=7, codec=1, rows=604, computed_at_ms=1000 + day
    )


def table(day: int) -> FeatureTable:
    return FeatureTable(
        id=f"202611{day:02d}T0200Z-1", buckets=126, features=("hour", "carrier"), rows=9, as_of_ms=day
    )


def offer(day: int, token: int, version: str = "1", digest: str = DIGEST) -> Activation:
    return Activation(
        model="delay",
        version=version,
        bundle_url=f"/bundles/delay/{version}",
        bundle_digest=digest,
        generation=generation(day, ordinal=day),
        features=table(day),
        token=token,
    )


def live(document: RoutesDocument) -> str | None:
    found = document.live_generation(document.stable)
    return found.id if found else None


def test_the_document_has_its_golden_text() -> None:
    document = activate(first_document(offer(27, 1), 5000), offer(28, 2), 6000)
    assert json.loads(document.model_dump_json()) == json.loads(GOLDEN.read_text())
    assert RoutesDocument.model_validate_json(GOLDEN.read_bytes()) == document


def test_fields_of_a_newer_writer_are_passed_over() -> None:
    newer = json.loads(GOLDEN.read_text()) | {"a_later_field": {"x": 1}}
    assert RoutesDocument.model_validate(newer).stable == "1"


def test_activating_makes_the_newest_generation_live_and_remembers_the_previous() -> None:
    document = activate(first_document(offer(27, 1), 5000), offer(28, 2), 6000)
    assert live(document) == "20261128T0200Z-1"
    assert document.previous
    assert document.previous.generation == "20261127T0200Z-1"
    assert document.order == (5000, 2)
    assert document.next_ordinal == 29


def test_activating_twice_changes_nothing_but_the_revision() -> None:
    once = activate(first_document(offer(27, 1), 5000), offer(28, 2), 6000)
    twice = activate(once, offer(28, 2), 7000)
    assert twice.model_copy(update={"revision": once.revision, "changed_at_ms": 6000}) == once


def test_an_older_token_or_interval_cannot_activate() -> None:
    document = first_document(offer(28, 5), 5000)
    with pytest.raises(RefusedTransition, match="token 4 is older than 5"):
        activate(document, offer(29, 4), 6000)
    with pytest.raises(RefusedTransition, match="interval 20261127T0200Z is older"):
        activate(document, offer(27, 6), 6000)


def test_a_version_cannot_change_its_bundle() -> None:
    with pytest.raises(RefusedTransition, match="a version is immutable"):
        activate(first_document(offer(27, 1), 5000), offer(28, 2, digest="cd" * 32), 6000)


def test_rollback_goes_back_and_forward_again() -> None:
    document = activate(first_document(offer(27, 1), 5000), offer(28, 2), 6000)
    back = rollback(document, 7000)
    assert live(back) == "20261127T0200Z-1"
    assert back.features == table(27)
    forward = rollback(back, 8000)
    assert live(forward) == "20261128T0200Z-1"
    assert forward.features == table(28)


def test_rollback_to_another_version() -> None:
    document = activate(first_document(offer(27, 1), 5000), offer(28, 2, version="2"), 6000)
    assert document.stable == "2"
    assert rollback(document, 7000).stable == "1"


def test_nothing_to_roll_back_to_is_said() -> None:
    with pytest.raises(RefusedTransition, match="nothing was live before"):
        rollback(first_document(offer(27, 1), 5000), 6000)


def test_retire_keeps_what_is_live_previous_or_newest_and_names_the_rest() -> None:
    document = first_document(offer(1, 1), 5000)
    for day in range(2, 6):
        document = activate(document, offer(day, day), 5000 + day)
    slim, retired = retire(document, keep_generations=2, keep_versions=2, now_ms=9000)
    assert [g.id for g in slim.versions["1"].generations] == ["20261105T0200Z-1", "20261104T0200Z-1"]
    assert [g.id for _, g in retired.generations] == ["20261103T0200Z-1", "20261102T0200Z-1", "20261101T0200Z-1"]
    assert [t.id for t in retired.features] == ["20261101T0200Z-1", "20261102T0200Z-1", "20261103T0200Z-1"]
    assert slim.features == table(5)
    assert slim.previous
    assert slim.previous.features == table(4)
    again, nothing = retire(slim, keep_generations=2, keep_versions=2, now_ms=9001)
    assert again is slim
    assert nothing == Retired()


def test_retire_never_takes_the_generation_a_rollback_needs() -> None:
    document = first_document(offer(1, 1), 5000)
    for day in range(2, 5):
        document = activate(document, offer(day, day), 5000 + day)
    slim, _ = retire(document, keep_generations=1, keep_versions=1, now_ms=9000)
    assert live(rollback(slim, 9001)) == "20261103T0200Z-1"


def released() -> RoutesDocument:
    """Version 1 of the 27th and 28th, then version 2 of the 29th."""
    document = activate(first_document(offer(27, 1), 5000), offer(28, 2), 6000)
    return activate(document, offer(29, 3, version="2"), 7000)


def test_a_release_keeps_the_version_before_as_fallback_through_later_refreshes() -> None:
    document = activate(released(), offer(30, 4, version="2"), 8000)
    assert document.fallback
    assert (document.fallback.version, document.fallback.since_ms) == ("1", 7000)
    back = switch(document, "1", 9000)
    assert (back.stable, live(back), back.features) == ("1", "20261128T0200Z-1", table(28))
    assert back.fallback
    assert back.fallback.version == "2"
    assert switch(back, "2", 9001).features == table(30)


def test_the_fallback_is_renewed_without_changing_what_is_live() -> None:
    document = released()
    renewed = renew(document, offer(30, 4, version="1"), 8000)
    assert (renewed.stable, live(renewed), renewed.features) == ("2", live(document), document.features)
    assert [g.id for g in renewed.versions["1"].generations][:2] == ["20261130T0200Z-1", "20261128T0200Z-1"]
    for back in (switch(renewed, "1", 9000), rollback(renewed, 9000)):
        assert (live(back), back.features) == ("20261130T0200Z-1", table(30))
    # The table that the fallback had is no longer referred to.
    assert table(28) in renewed.retired_features
    assert renewed.interval == document.interval


def test_what_is_no_fallback_or_older_is_not_renewed() -> None:
    with pytest.raises(RefusedTransition, match="version 2 is no longer kept for a rollback, 1 is"):
        renew(released(), offer(30, 4, version="2"), 8000)
    with pytest.raises(RefusedTransition, match="none is"):
        renew(first_document(offer(27, 1), 5000), offer(28, 2), 8000)
    with pytest.raises(RefusedTransition, match="20261128T0200Z-1 of version 1 is newer"):
        renew(released(), offer(26, 4), 8000)
    with pytest.raises(RefusedTransition, match="token 2 is older than 3"):
        renew(released(), offer(30, 2), 8000)


def test_a_delta_patches_the_live_generation_in_place_of_an_earlier_one() -> None:
    document = activate(first_document(offer(27, 1), 5000), offer(28, 2), 6000)
    first = patch(document, offer(29, 2), "20261128T0200Z-1", 7000)
    second = patch(first, offer(30, 2), "20261128T0200Z-1", 8000)
    found = second.live_generation("1")
    assert found
    assert (found.id, [delta.id for delta in found.deltas]) == ("20261128T0200Z-1", ["20261130T0200Z-1"])
    assert second.features == table(30)
    assert second.previous == document.previous
    slim, retired = retire(second, keep_generations=2, keep_versions=2, now_ms=9000)
    assert [(version, g.id) for version, g in retired.generations] == [("1", "20261129T0200Z-1")]
    assert {t.id for t in retired.features} == {"20261128T0200Z-1", "20261129T0200Z-1"}
    assert slim.live_generation("1") == found


def test_a_delta_without_rows_brings_its_features_only() -> None:
    document = patch(first_document(offer(27, 1), 5000), offer(28, 1), "20261127T0200Z-1", 6000)
    empty = offer(29, 1)
    empty = empty.model_copy(update={"generation": empty.generation.model_copy(update={"rows": 0})})
    patched = patch(document, empty, "20261127T0200Z-1", 7000)
    found = patched.live_generation("1")
    assert found
    assert (found.deltas, patched.features) == ((), table(29))


def test_a_delta_of_what_is_no_longer_live_or_newer_is_refused() -> None:
    document = activate(first_document(offer(27, 1), 5000), offer(28, 2), 6000)
    with pytest.raises(RefusedTransition, match="patches 20261127T0200Z-1 of version 1, which is not live"):
        patch(document, offer(29, 2), "20261127T0200Z-1", 7000)
    newer = patch(document, offer(30, 2), "20261128T0200Z-1", 7000)
    with pytest.raises(RefusedTransition, match="interval 20261129T0200Z is older"):
        patch(newer, offer(29, 2), "20261128T0200Z-1", 8000)


def test_the_next_night_replaces_base_and_delta_and_retires_both() -> None:
    document = patch(first_document(offer(27, 1), 5000), offer(28, 1), "20261127T0200Z-1", 6000)
    document = activate(activate(document, offer(29, 2), 7000), offer(30, 3), 8000)
    _, retired = retire(document, keep_generations=2, keep_versions=2, now_ms=9000)
    assert [g.id for _, g in retired.generations] == ["20261127T0200Z-1", "20261128T0200Z-1"]


def test_a_switch_needs_another_version_with_a_generation() -> None:
    with pytest.raises(RefusedTransition, match="version 2 is live already"):
        switch(released(), "2", 8000)
    with pytest.raises(RefusedTransition, match="version 9 is not loaded; beside the live one there are: 1"):
        switch(released(), "9", 8000)


def test_retire_never_takes_the_fallback() -> None:
    document = released()
    for day in range(1, 4):
        document = activate(document, offer(29, 3 + day, version="2"), 8000 + day)
    slim, _ = retire(document, keep_generations=1, keep_versions=1, now_ms=9000)
    assert live(switch(slim, "1", 9001)) == "20261128T0200Z-1"


def test_routes_to_a_version_that_is_not_there_are_refused() -> None:
    document = first_document(offer(27, 1), 5000)
    experiment = Experiment.model_validate(
        {"id": "e", "salt": "s", "arms": [{"name": "b", "version": "9", "share": 0.5}]}
    )
    with pytest.raises(ValueError, match=r"does not hold: \['9'\]"):
        RoutesDocument.model_validate(document.model_dump() | {"experiment": experiment})

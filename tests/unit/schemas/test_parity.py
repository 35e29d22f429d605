"""How a stored result and a live one differ, and what that is put down to."""

from pathlib import Path

import numpy as np
import pytest

from schemas.manifest import Manifest
from schemas.parity import Kind, excess, explained, fits, label_places, measure
from tests.support.list_bundles import topics_bundle
from tests.support.publish_small import small_manifest

SMALL = small_manifest()
STORED = np.array([[0.5, 8.0]], np.float32)


@pytest.mark.parametrize(
    ("live", "kind", "output"),
    [
        ((0.5, 8.0), Kind.EQUAL, "late"),
        ((0.5, np.nextafter(np.float32(8.0), np.float32(9))), Kind.NUMERIC, "minutes"),
        ((0.5, 8.1), Kind.NUMERIC_OVER, "minutes"),
        ((0.6, 8.0), Kind.NUMERIC_OVER, "late"),
    ],
)
def test_a_hit_is_measured_by_its_worst_output(live: tuple[float, float], kind: Kind, output: str) -> None:
    found = measure(SMALL, np.array([live], np.float32), STORED)
    assert (found.kind, found.output) == (kind, output)
    assert (found.tolerances > 1) == (kind is Kind.NUMERIC_OVER)


def test_how_far_off_is_in_tolerances() -> None:
    tolerance = SMALL.tolerance
    allowed = tolerance.absolute + tolerance.relative * 8.0
    live = STORED + np.array([[0.0, 3 * allowed]], np.float32)
    assert measure(SMALL, live, STORED).tolerances == pytest.approx(3.0, rel=0.1)
    assert bool(fits(SMALL, live, STORED, times=4.0)[0])
    assert not bool(fits(SMALL, live, STORED, times=2.0)[0])


def test_nan_never_fits() -> None:
    live = np.array([[np.nan, 8.0]], np.float32)
    found = measure(SMALL, live, STORED)
    assert (found.kind, found.tolerances) == (Kind.NUMERIC_OVER, np.inf)


def topics(tmp_path: Path) -> Manifest:
    return topics_bundle(tmp_path / "bundle").manifest


def test_another_label_of_a_top_k_is_infinitely_far_unless_it_ties(tmp_path: Path) -> None:
    manifest = topics(tmp_path)
    places = label_places(manifest)
    assert places
    first, second = places[:2]
    stored = np.zeros((1, manifest.output.stored_width), np.float32)
    stored[0, first], stored[0, second] = 0.0, 1.0
    for number, place in enumerate(places):
        stored[0, place], stored[0, place + 1] = float(number), 0.9 - 0.2 * number
    live = stored.copy()
    live[0, first], live[0, second] = stored[0, second], stored[0, first]
    off = excess(manifest, live, stored)
    assert np.isinf(off[0, [first, second]]).all()
    assert measure(manifest, live, stored).kind is Kind.NUMERIC_OVER
    # Of equal scores either may come first.
    for rows in (stored, live):
        rows[0, first + 1] = rows[0, second + 1]
    assert excess(manifest, live, stored).max() == 0.0
    assert measure(manifest, live, stored).kind is Kind.NUMERIC


@pytest.mark.parametrize(
    ("is_other_bundle", "has_other_features", "kind"),
    [
        (False, False, Kind.NUMERIC_OVER),
        (False, True, Kind.FEATURE_DRIFT),
        (True, False, Kind.WRONG_MODEL),
        (True, True, Kind.WRONG_MODEL),
    ],
)
def test_what_explains_a_difference(is_other_bundle: bool, has_other_features: bool, kind: Kind) -> None:
    assert explained(is_other_bundle, has_other_features) is kind

"""A second's columns to metrics: the same counts as one by one, and no more series than there are versions for."""

from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Histogram

from online.api.metrics import slots
from online.api.metrics.folding import FoldedHistogram, by_value, counts_of
from online.api.metrics.series import Metrics
from schemas.arrow import REQUEST_LOG


def test_a_fold_counts_as_observing_one_by_one() -> None:
    values = np.concatenate([np.random.default_rng(1).exponential(0.01, 500), [0.0, 0.001, 1e9]])
    folded = FoldedHistogram("a", "", buckets=(0.001, 0.01, 0.1), registry=CollectorRegistry())
    observed = Histogram("a", "", buckets=(0.001, 0.01, 0.1), registry=CollectorRegistry())
    folded.fold(values)
    for value in values:
        observed.observe(value)
    pairs = [
        [
            (one.name, one.labels, pytest.approx(one.value))
            for one in found.collect()[0].samples
            if "created" not in one.name
        ]
        for found in (folded, observed)
    ]
    assert pairs[0] == pairs[1]


@pytest.mark.parametrize("values", [("a",) * 5, ("a", None, "b", "a", None)])
def test_places_of_each_value(values: tuple[str | None, ...]) -> None:
    found = {
        value: list(range(len(values))) if places is None else places.tolist()
        for value, places in by_value(values)
    }
    assert found == {
        value: [at for at, one in enumerate(values) if one == value] for value in dict.fromkeys(values)
    }
    assert dict(counts_of(values, values)) == {(value, value): len(places) for value, places in found.items()}


def test_versions_without_end_have_one_label_together() -> None:
    metrics = Metrics(dict)
    for number in range(100):
        row = dict.fromkeys(REQUEST_LOG.names) | {
            "version": f"v{number}",
            "source": "live",
            "total_us": 9,
        }
        metrics.fold([("m", [(value,) for value in row.values()])], {})
    found = {
        one.labels["version"]: one.value for one in metrics.answers.collect()[0].samples if "total" in one.name
    }
    assert len(found) == 33
    assert found["other"] == 68


def test_a_place_is_free_again_once_its_worker_has_gone(tmp_path: Path) -> None:
    """Locks belong to an open file, so that two in one process are as two workers."""
    first, second = slots.take_slot(tmp_path, 2), slots.take_slot(tmp_path, 2)
    assert (first.number, second.number) == (0, 1)
    for name in ("counter_0", "gauge_livesum_0", "gauge_livesum_1"):
        (tmp_path / f"{name}.db").write_bytes(b"")
    slots.forget_dead(tmp_path)
    assert len(list(tmp_path.glob("*.db"))) == 3
    first.close()
    slots.forget_dead(tmp_path)
    assert {path.stem for path in tmp_path.glob("*.db")} == {"counter_0", "gauge_livesum_1"}
    third = slots.take_slot(tmp_path, 2)
    assert third.number == 0
    for held in (second, third):
        held.close()

"""What is counted in a window is what the baseline was counted from: the same rows give the same histogram."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import orjson
import pytest

from batch_scoring.drift.__main__ import is_whole_weeks, periods_of, window_of
from batch_scoring.drift.counting import RECORDS, ROWS, CountTask, count
from batch_scoring.drift.histograms import Baseline, Histogram, histogram, read_baseline
from batch_scoring.runs import Refused
from runtime.program import load_program
from schemas.arrow import DRIFT, DRIFT_VERSION
from schemas.bundle import Bundle, load_transform
from schemas.outputs import calibrate
from tests.support.bundles import linear_bundle, text_bundle
from tests.support.list_bundles import topics_bundle
from tests.support.request_log import utc
from tests.support.texts import words

LINEAR = [
    {
        "distance": 100.0 + 37.0 * row,
        "delay": None if row % 7 == 0 else float(row - 30),
        "airline": ("AA", "DL", "UA", "XX", None)[row % 5],
    }
    for row in range(60)
]
TEXT = [{"text": words(min(4**row // 3, 700), row), "number": 0.25 * row} for row in range(12)]
WHOLE = [{"x": float(i % 11 - 5), "y": float(i % 7)} for i in range(60)]
OUTPUTS_OF_ONE = 4


def counted(bundle: Bundle, records: Sequence[dict[str, object]]) -> dict[Baseline, Histogram]:
    """Through the log's columns, as the API writes them."""
    transform = load_transform(bundle.folder, bundle.manifest)
    outputs = calibrate(
        bundle.manifest.output, load_program(bundle.folder, bundle.manifest)(transform.records(records).tensors)
    )
    baselines = tuple(read_baseline(bundle.folder))
    task = CountTask(str(bundle.folder), bundle.digest, "", (), bundle.manifest, baselines)
    inputs = [orjson.dumps(record).decode() for record in records]
    found = count(inputs, [row.tolist() for row in outputs], task, transform if transform.has_text else None)
    assert (found[ROWS].total(), found[RECORDS].total()) == (len(records), len(records))
    return {baseline: histogram(baseline, found[baseline.key]) for baseline in baselines}


@pytest.mark.parametrize(
    ("build", "records"),
    [(linear_bundle, LINEAR), (text_bundle, TEXT), (topics_bundle, WHOLE)],
    ids=["linear", "text", "top-k"],
)
def test_the_training_rows_give_the_baseline(
    build: Callable[[Path], Bundle], records: list[dict[str, object]], tmp_path: Path
) -> None:
    bundle = build(tmp_path / "bundle")
    for baseline, found in counted(bundle, records).items():
        assert (found.rows, found.nulls, found.absent) == (baseline.rows, baseline.nulls, 0), baseline.name
        # Outputs of a batch of another size differ in their last bits, and may lie on the other side of an edge.
        moved = np.abs(found.counts - np.array(baseline.counts)).sum() + found.outside
        assert moved <= (0 if baseline.side == "input" else OUTPUTS_OF_ONE), baseline.name


def test_records_that_are_none_and_rows_of_another_width(tmp_path: Path) -> None:
    bundle = linear_bundle(tmp_path / "bundle")
    task = CountTask("", "", "", (), bundle.manifest, tuple(read_baseline(bundle.folder)))
    inputs = [
        None,
        "{",
        "[1]",
        '{"distance": "far", "airline": 7}',
        '{"distance": 100, "airline": "AA", "delay": 1}',
    ]
    found = count(inputs, [None, [0.5], [0.5, 1.0, 2.0], [0.5, 1.0], None], task, None)
    assert (found[ROWS].total(), found[RECORDS].total()) == (5, 2)
    distance, delay, airline, late, _ = (histogram(one, found[one.key]) for one in task.baselines)
    assert (distance.known, distance.nulls, distance.absent) == (1, 1, 0)
    assert (delay.known, delay.nulls, delay.absent) == (1, 0, 1)
    assert (airline.known, airline.nulls) == (1, 1)
    assert late.rows == 1


def test_windows() -> None:
    now = utc("2026-11-28 14:30")
    assert window_of(None, None, now) == (utc("2026-11-21"), utc("2026-11-28"))
    assert window_of("2026-11-28T01:00+01:00", "2026-11-28T06:00", now) == (
        utc("2026-11-28"),
        utc("2026-11-28 06:00"),
    )
    with pytest.raises(Refused, match="neither a date nor a time"):
        window_of("28.11.", None, now)
    with pytest.raises(Refused, match="would begin"):
        window_of("2026-11-28", "2026-11-28", now)
    week, day = (utc("2026-11-21"), utc("2026-11-28")), (utc("2026-11-28"), utc("2026-11-29"))
    assert (is_whole_weeks(week), is_whole_weeks(day)) == (True, False)
    for window in (week, day, (utc("2026-11-01"), utc("2026-11-19"))):
        first, *before = periods_of(window)
        assert (first.begin, first.end) == window
        for one in before:  # same weekday, same hours, and none of the window's own
            assert (first.begin - one.begin) % timedelta(days=7) == timedelta(0)
            assert one.end - one.begin == first.end - first.begin
            assert one.end <= first.begin


def test_the_schema_of_the_results() -> None:
    # Readers elsewhere depend on it: a change of these wants a new version.
    assert DRIFT.metadata == {b"hotset.drift": str(DRIFT_VERSION).encode()} == {b"hotset.drift": b"1"}
    assert " ".join(DRIFT.names) == (
        "window_begin window_end version population side name type level kinds reasons rows effective_rows nulls"
        " absent withheld outside new_values new_counts psi psi_threshold jensen_shannon jensen_shannon_threshold"
        " freedom baseline_rows baseline_nulls edges values baseline_counts counts"
    )

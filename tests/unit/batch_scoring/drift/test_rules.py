"""Alarms for what was planted, and none for chance: 20 windows of 8, 1,000 and a million rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_scoring.bundle.baseline import _category, _number
from batch_scoring.drift.histograms import Baseline, Histogram, Tally, histogram, read_baseline, tally
from batch_scoring.drift.rules import ALARM, FINE, TOO_FEW, WARNING, Finding, Rules, Sample, judge
from schemas.arrow import BASELINE

Random = np.random.Generator
Columns = dict[str, Any]
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def drawn(random: Random, rows: int) -> Columns:
    """What nothing has happened to: a smooth number, ties, a constant, a heavy tail, categories, nulls."""
    with_nulls = random.normal(size=rows)
    with_nulls[random.random(rows) < 0.1] = np.nan
    names = [f"v{number}" for number in range(300)]
    popular = 1 / np.arange(1, 301)
    return {
        "smooth": random.normal(size=rows),
        "ties": np.floor(random.exponential(0.7, rows)),
        "constant": np.full(rows, 3.5),
        "heavy": random.pareto(0.8, rows),
        "with_nulls": with_nulls,
        "day": random.choice(DAYS, rows, p=[0.16, 0.16, 0.16, 0.16, 0.16, 0.12, 0.08]).tolist(),
        "popular": random.choice(names, rows, p=popular / popular.sum()).tolist(),
    }


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> list[Baseline]:
    """As `write_baseline` writes it, of 20,000 rows."""
    columns = drawn(np.random.default_rng(1), 20_000)
    rows = [
        _category("input", name, values) if isinstance(values, list) else _number("input", name, values)
        for name, values in columns.items()
    ]
    folder = tmp_path_factory.mktemp("bundle")
    pq.write_table(pa.Table.from_pylist(rows, schema=BASELINE), folder / "baseline.parquet")
    return read_baseline(folder)


def sample(baselines: Sequence[Baseline], columns: Mapping[str, Any], rows: int, repeats: float = 1.0) -> Sample:
    found = {b.key: histogram(b, tally(b, columns[b.name])) for b in baselines if b.name in columns}
    for b in baselines:
        if b.name not in columns:
            found[b.key] = replace(histogram(b, {}), absent=rows)
    return Sample(rows, rows, repeats, found)


def judged(
    baselines: list[Baseline], tail: Sample, before: Sample | None = None, weeks: bool = True
) -> dict[str, Finding]:
    found = judge(baselines, {"tail": tail}, {"tail": before} if before else {}, weeks, Rules())
    return {finding.baseline.name: finding for finding in found if finding.population == "tail"}


def alarms(found: Mapping[str, Finding]) -> list[str]:
    return [name for name, finding in found.items() if finding.level == ALARM]


@pytest.mark.parametrize("rows", [8, 1_000])
def test_no_alarm_without_a_shift(baselines: list[Baseline], rows: int) -> None:
    random = np.random.default_rng(rows)
    for _ in range(20):
        found = judged(baselines, sample(baselines, drawn(random, rows), rows))
        assert alarms(found) == []
        if rows == 8:
            assert {finding.level for finding in found.values()} <= {TOO_FEW, WARNING}
            assert all("too few rows: 8 sampled rows" in finding.reasons[0] for finding in found.values())


def big(baselines: Sequence[Baseline], population: Sample, random: Random, rows: int) -> Sample:
    """So many rows of the population, drawn as counts."""
    found = {}
    for b in baselines:
        shares = population.histograms[b.key]
        parts = [*shares.counts, shares.below, shares.above, *shares.new.values(), shares.nulls]
        counts = random.multinomial(rows, np.array(parts) / sum(parts))
        size = len(b.counts)
        new = dict(zip(shares.new, counts[size + 2 : -1].tolist(), strict=True))
        below, above = counts[size : size + 2].tolist()
        found[b.key] = Histogram(counts[:size], below, above, new=new, nulls=int(counts[-1]))
    return Sample(rows, rows, 1.0, found)


def test_no_alarm_without_a_shift_at_a_million_rows(baselines: list[Baseline]) -> None:
    random = np.random.default_rng(3)
    population = sample(baselines, drawn(np.random.default_rng(2), 200_000), 200_000)
    for _ in range(20):
        assert alarms(judged(baselines, big(baselines, population, random, 1_000_000))) == []


@pytest.mark.parametrize("rows", [1_000, 50_000])
def test_a_shift_is_found_and_named(baselines: list[Baseline], rows: int) -> None:
    columns = drawn(np.random.default_rng(4), rows)
    columns["smooth"] = columns["smooth"] + 1.0
    found = judged(baselines, sample(baselines, columns, rows))
    assert alarms(found) == ["smooth"]
    assert found["smooth"].kinds == ["drift"]
    assert next(iter(found)) == "smooth"  # the worst first


def test_a_population_of_its_own_is_judged_by_itself(baselines: list[Baseline]) -> None:
    random = np.random.default_rng(5)
    shifted = drawn(random, 2_000)
    shifted["heavy"] = shifted["heavy"] * 8
    hits, tail = sample(baselines, drawn(random, 20_000), 20_000), sample(baselines, shifted, 2_000)
    found = judge(baselines, {"hits": hits, "tail": tail}, {}, True, Rules())
    assert [(one.population, one.baseline.name) for one in found if one.level == ALARM] == [("tail", "heavy")]


def test_rows_that_repeat_each_other_count_less(baselines: list[Baseline]) -> None:
    # 60 entities, asked for 50 times each: no shift, and yet 3,000 rows that differ from the baseline.
    random = np.random.default_rng(6)
    for _ in range(20):
        few = drawn(random, 150)
        many: Columns = {name: [value for value in values for _ in range(50)] for name, values in few.items()}
        taken_for_different = judged(baselines, sample(baselines, many, 7_500))
        assert alarms(judged(baselines, sample(baselines, many, 7_500, repeats=50.0))) == []
        if alarms(taken_for_different):
            break
    else:
        pytest.fail("repeats would have made no difference, so this test shows nothing")


def test_nulls_that_repeat_each_other_count_less_too(baselines: list[Baseline]) -> None:
    columns = drawn(np.random.default_rng(15), 6_000)
    columns["with_nulls"] = np.where(np.arange(6_000) % 10 < 3, np.nan, columns["smooth"])
    assert alarms(judged(baselines, sample(baselines, columns, 6_000))) == ["with_nulls"]
    assert alarms(judged(baselines, sample(baselines, columns, 6_000, repeats=50.0))) == []


@pytest.mark.parametrize("beyond", [-100.0, 100.0])
def test_values_beyond_the_range_count_in_the_bin_at_its_end(baselines: list[Baseline], beyond: float) -> None:
    columns = drawn(np.random.default_rng(16), 1_000)
    columns["smooth"][:400] = beyond
    assert sorted(judged(baselines, sample(baselines, columns, 1_000))["smooth"].kinds) == ["drift", "outside"]


def test_values_that_a_baseline_does_not_list_are_one_bin(tmp_path: Path) -> None:
    names = [f"v{number}" for number in range(2_000)] * 10
    table = pa.Table.from_pylist([_category("input", "many", names)], schema=BASELINE)
    pq.write_table(table, tmp_path / "baseline.parquet")
    baselines = read_baseline(tmp_path)
    assert baselines[0].unlisted > 0
    assert judged(baselines, sample(baselines, {"many": names[:2_000]}, 2_000))["many"].kinds == []
    assert judged(baselines, sample(baselines, {"many": ["another"] * 2_000}, 2_000))["many"].kinds == ["drift"]


def test_a_constant_that_changes(baselines: list[Baseline]) -> None:
    columns = drawn(np.random.default_rng(7), 1_000)
    columns["constant"] = np.full(1_000, 3.25)
    found = judged(baselines, sample(baselines, columns, 1_000))
    assert alarms(found) == ["constant"]
    assert found["constant"].kinds == ["outside"]
    assert found["constant"].reasons == ["100.00% of its rows lie outside 3.5 to 3.5; the baseline has none there"]


def test_new_categories_are_named(baselines: list[Baseline]) -> None:
    columns = drawn(np.random.default_rng(8), 1_000)
    columns["day"][:300] = ["Holiday"] * 300
    found = judged(baselines, sample(baselines, columns, 1_000))
    assert "new_category" in found["day"].kinds
    assert "not in the baseline: 'Holiday' (300); 30.00% of its rows" in found["day"].reasons
    assert alarms(found) == ["day"]
    columns = drawn(np.random.default_rng(9), 1_000)
    columns["day"][0] = "Holiday"
    found = judged(baselines, sample(baselines, columns, 1_000))
    assert (found["day"].level, found["day"].kinds) == (WARNING, ["new_category"])


def test_a_window_of_nulls_and_one_without_the_feature(baselines: list[Baseline]) -> None:
    columns = drawn(np.random.default_rng(10), 1_000)
    columns["smooth"] = np.full(1_000, np.nan)
    del columns["ties"]
    found = judged(baselines, sample(baselines, columns, 1_000))
    assert sorted(alarms(found)) == ["smooth", "ties"]
    assert (found["smooth"].kinds, found["ties"].kinds) == (["nulls"], ["missing"])
    assert found["smooth"].reasons == ["100.0% of its rows are null, 0.0% in the baseline"]
    assert found["ties"].reasons == ["none of 1,000 records has it"]


def test_a_feature_kept_out_of_the_log_is_no_alarm(baselines: list[Baseline]) -> None:
    columns = drawn(np.random.default_rng(11), 1_000)
    given = sample(baselines, columns, 1_000)
    hidden = replace(histogram(baselines[0], {}), withheld=1_000)
    found = judged(baselines, replace(given, histograms={**given.histograms, baselines[0].key: hidden}))
    assert (found["smooth"].level, found["smooth"].kinds) == (FINE, [])
    assert "kept out of the log" in found["smooth"].reasons[0]


def weekend(random: Random, rows: int) -> Columns:
    return drawn(random, rows) | {"day": random.choice(["Sat", "Sun"], rows).tolist()}


def test_a_weekend_like_those_before_is_no_alarm(baselines: list[Baseline]) -> None:
    random = np.random.default_rng(12)
    saturday = sample(baselines, weekend(random, 2_000), 2_000)
    before = sample(baselines, weekend(random, 8_000), 8_000)
    found = judged(baselines, saturday, before, weeks=False)
    assert (alarms(found), found["day"].level) == ([], WARNING)
    assert found["day"].kinds == ["standing", "drift"]
    # Without those before, nothing says that a weekend is all it is; and a whole week has every day.
    assert alarms(judged(baselines, saturday, weeks=False)) == ["day"]
    assert alarms(judged(baselines, saturday, before, weeks=True)) == ["day"]


def test_a_shift_on_a_weekend_is_found(baselines: list[Baseline]) -> None:
    random = np.random.default_rng(13)
    columns = weekend(random, 2_000)
    columns["smooth"] = columns["smooth"] - 1.0
    before = sample(baselines, weekend(random, 8_000), 8_000)
    found = judged(baselines, sample(baselines, columns, 2_000), before, weeks=False)
    assert alarms(found) == ["smooth"]


def test_tallies_add_up_whatever_the_batches(baselines: list[Baseline]) -> None:
    columns = drawn(np.random.default_rng(14), 999)
    columns["day"][:200] = [f"new{place}" for place in range(200)]
    for b in baselines:
        values = columns[b.name]
        parts: list[Tally] = [tally(b, values[start : start + 100]) for start in range(0, 999, 100)]
        whole, summed = histogram(b, tally(b, values)), histogram(b, reduce(add, parts))
        assert (whole.rows, whole.counts.tolist(), whole.nulls) == (999, summed.counts.tolist(), summed.nulls)
        assert whole.outside == summed.outside
    assert len(histogram(baselines[5], tally(baselines[5], columns["day"])).new) == 50


def test_an_empty_baseline_and_no_rows_at_all(tmp_path: Path) -> None:
    rows = [_number("output", "late", np.full(5, np.nan)), _category("input", "x", [None] * 5)]
    pq.write_table(pa.Table.from_pylist(rows, schema=BASELINE), tmp_path / "baseline.parquet")
    baselines = read_baseline(tmp_path)
    assert {finding.level for finding in judge(baselines, {}, {}, True, Rules())} == {TOO_FEW}
    found = judged(baselines, sample(baselines, {"late": np.ones(500), "x": ["a"] * 500}, 500))
    assert sorted(alarms(found)) == ["late", "x"]

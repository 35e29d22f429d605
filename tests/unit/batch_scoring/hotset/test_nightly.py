"""What a night decides and says, by hand-made numbers: the lists and the room hold whichever set is written."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_scoring.hotset.choice import Lists, entity_bytes
from batch_scoring.hotset.choosing import Choice, Room
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.everybody import choose_of
from batch_scoring.hotset.fit import unfitted
from batch_scoring.hotset.nightly.deciding import decide, kept, only_mandatory
from batch_scoring.hotset.nightly.given import names_in
from batch_scoring.hotset.nightly.in_service import InService
from batch_scoring.hotset.nightly.log_rows import RowFacts, table_facts, table_requests
from batch_scoring.hotset.nightly.small_log import SmallLog
from batch_scoring.hotset.nightly.traffic import summed
from batch_scoring.hotset.nightly.trying import Trial
from batch_scoring.hotset.proving import Duel, Proof
from batch_scoring.hotset.sampling import trace_of
from batch_scoring.hotset.trace import DAY_S, Trace
from batch_scoring.runs import Refused, Role, Run
from schemas.arrow import HOT_SET
from schemas.hotset_report import Used

AS_OF = datetime(2026, 11, 28, 2, tzinfo=UTC)
MODEL = CostModel(live_ms=10, batch_ms=1, payload_bytes=46)
FIT = unfitted(7.0, 1.0)
CHOICE = Choice(["a", "b"], np.array([3.0, 2.0]), 5, 5, 6.0, 200, 40.0, (1, 0.5), [(0.0, 0.0)], None)
LOST, WON = Duel(1, 0.4, 0.6, -0.2, 0.05), Duel(1, 0.6, 0.61, -0.01, 0.05)
IDS = st.text("abc", min_size=1, max_size=3)


def in_service() -> InService:
    run = Run(
        model="m",
        version="1",
        bundle_url="b",
        bundle_digest="a" * 64,
        as_of=AS_OF,
        generation="20261127T0200Z-1",
        ordinal=1,
        started_at_ms=1,
        run_key="k",
        token=1,
        role=Role.STABLE,
        url="runs/run.json",
    )
    return InService(run, HOT_SET.empty_table())


def trial(duel: Duel | None, room: Room | None = None) -> Trial:
    return Trial(FIT, room or Room(5, 5, np.inf, 100), 1.0, Proof(FIT, [], {}, {}, 0.0, duel), None)


@pytest.mark.parametrize(
    ("duel", "declined", "used", "words"),
    [
        (LOST, None, Used.YESTERDAY, "20261127T0200Z-1 is kept: in the window since"),
        (LOST, "nothing pays", Used.YESTERDAY, "20.0% less of all live scoring; noise is 5.0%"),
        (WON, None, Used.CHOICE, "no worse than the set of 20261127T0200Z-1"),
        (WON, "nothing pays", Used.DECLINED, "nothing pays"),
        (None, None, Used.CHOICE, "no window that begins after its choice"),
    ],
)
def test_which_set_is_used(duel: Duel | None, declined: str | None, used: Used, words: str) -> None:
    found = decide(trial(duel), replace(CHOICE, declined=declined), in_service())
    assert found.used is used
    assert words in found.reason


def test_without_a_set_in_service_there_is_nothing_to_lose_to() -> None:
    assert "no older set is in service" in decide(trial(None), CHOICE, None).reason


@given(
    st.dictionaries(IDS, st.floats(0, 9), max_size=12),
    st.sets(IDS, max_size=4),
    st.sets(IDS, max_size=4),
    st.integers(0, 6),
    st.floats(0, 900),
)
def test_blocked_are_never_in_mandatory_always_and_the_budget_is_kept(
    weights: dict[str, float], mandatory: set[str], blocked: set[str], most: int, budget: float
) -> None:
    must = sorted(mandatory - blocked)
    room = Room(most, most, budget, 100)
    totals = len(weights), sum(weights.values())
    choice = choose_of(weights, totals, 1, FIT, MODEL, room, must, blocked)
    old = Trace.of(np.empty(0, np.int64), sorted(weights)).knowing(must)
    lists = Lists.of(old, must, blocked)
    yesterdays = kept(old, np.zeros(old.entities), trial(LOST, room), choice, MODEL, lists)
    for found in (choice, yesterdays, only_mandatory(choice, frozenset(must), MODEL)):
        assert len(set(found.entities)) == len(found.entities) == len(found.expected)
        assert not blocked & set(found.entities)
        assert set(must) <= set(found.entities)
        assert len(found.entities) <= max(most, len(must))
        taken = Trace.of(np.empty(0, np.int64), found.entities)
        assert found.bytes == entity_bytes(taken, MODEL).sum()
        needed = entity_bytes(Trace.of(np.empty(0, np.int64), must), MODEL).sum()
        assert found.bytes <= max(budget, needed)


def test_rows_are_accounted_for_by_reason() -> None:
    rows = pa.table(
        {
            "reason": [None, None, "late", "not answered", "outside"],
            "entity": ["a", "b", None, None, None],
            "time_us": [5_000_000, 3_000_000, None, None, None],
            "requests": [1, 4, 0, 0, 0],
            "copies": [3, 4, 2, 7, 1],
        }
    )
    assert table_facts(rows) == RowFacts(5, 3.0, 7, 1, {"late": 2, "duplicated": 2})
    assert table_facts(rows.slice(0, 0)) == RowFacts(0, None, 0, 0, {})
    trace = trace_of(table_requests(rows))
    assert [trace.names[code] for code in trace.codes] == ["b", "b", "b", "b", "a"]


def test_a_small_log_by_hand() -> None:
    """As of the end of day two: a was asked for when it began and twice in its last minute; x has no features."""
    rows = pa.table(
        {
            "entity": ["a", "a", "x"],
            "time_s": [DAY_S, 2 * DAY_S - 60, 2 * DAY_S - 30],
            "requests": [1, 2, 1],
        }
    )
    known = ds.dataset(pa.table({"entity": ["a", "b", "c"]}))
    log = SmallLog(trace_of(rows), RowFacts(4, DAY_S, 0, 0, {}), known, 2 * DAY_S, DAY_S)
    log.count(unfitted(1.0, 1.0), 1)
    assert log.known_of(["c", "x", "a"]) == ["c", "a"]
    assert log.weights_of(["a", "never"]) == [pytest.approx(0.5 + 2 * 0.5 ** (60 / DAY_S)), 0.0]
    assert log.sample(1000)[1:] == ({"x"}, 1.0)
    curve, asked = log.curve(3)
    assert (curve, asked) == ([(0.0, 0.0), (pytest.approx(1 / 3), 0.75)], 2)
    found = log.traffic(["a"], ["x"], 2 * DAY_S - 60)
    assert (found.requests, found.hot, found.since, found.since_old) == (4, 3, 3, 1)
    assert (found.peak_at_s, found.peak, found.peak_miss_share) == (2 * DAY_S - 60, 3, pytest.approx(1 / 3))
    choice = log.choose(MODEL, Room(2, 2, np.inf, 100), (), ())
    assert choice.entities == ["a"]


def test_the_tail_is_busiest_in_a_minute_of_its_own() -> None:
    """Of ten requests in one minute one is missed, of five in another four."""
    zeros = np.zeros(2)
    minutes = {"minute": np.array([7, 8]), "requests": np.array([10, 5]), "hot": np.array([9, 1])}
    found = summed({**minutes, "old": zeros, "weight": zeros, "hot_weight": zeros}, None)
    assert (found.peak, found.most_missed, found.peak_miss_share) == (10, 4, 0.4)


def test_lists_are_lines_each_once(tmp_path: pytest.TempPathFactory) -> None:
    path = f"{tmp_path}/must"
    with open(path, "w", encoding="utf-8") as file:
        file.write("007\n\n7\n007\n")
    assert list(names_in(path, "BATCH_MANDATORY_URL")) == ["007", "7"]
    assert names_in("", "BATCH_MANDATORY_URL") == {}
    with pytest.raises(Refused, match=r"BATCH_BLOCK_URL: .*nowhere cannot be read"):
        names_in(f"{tmp_path}/nowhere", "BATCH_BLOCK_URL")

"""Plain hits in the log: what is left out of their rows comes back in the columns, and is counted the same."""

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from online.api.metrics.series import Metrics
from online.api.requestlog.arrays import to_batch
from online.api.requestlog.buffer import RequestBuffer
from online.api.requestlog.columns import Coded, Columns, Numbers, Same, Texts
from online.api.requestlog.hit_columns import columns_of, whole_row
from online.api.requestlog.hit_rows import HitRows, Hits
from online.api.requestlog.places import place_of
from online.api.requestlog.samples import Samples
from schemas.arrow import REQUEST_LOG
from tests.support.plain_hits import AnsweredHit, Lane, Version, kept

NOW_US = 1_796_000_000_000_000
NAMES = st.sampled_from(["7", "8", "on time", "ünlü"])
MOMENTS_US = st.integers(1_700_000_000_000_000, 1_900_000_000_000_000)
TIMES_US = st.integers(0, (1 << 31) - 1)
TEXTS = st.text(max_size=9).map(lambda text: text.encode())
KEPT = st.builds(
    kept,
    *(TEXTS, st.none() | NAMES, st.none() | NAMES, st.none() | st.floats(0, 1)),
    MOMENTS_US.map(lambda us: us // 1000),
)
# Answers that are told more than once, by two lanes, for requests with ids of any length.
LANES = (Lane(Version("7")), Lane(Version("8")))
SOME = st.lists(KEPT, min_size=1, max_size=4).flatmap(
    lambda told: st.lists(
        st.builds(
            AnsweredHit,
            *(st.sampled_from(LANES), st.sampled_from(told), TEXTS),
            *(MOMENTS_US, TIMES_US, TIMES_US, TIMES_US, TIMES_US),
        ),
        min_size=1,
        max_size=12,
    )
)
NOTHING = Samples(0.0, (), lambda view, entities: [None] * len(entities))


def hit(request_id: bytes = b"r", lane: Lane = LANES[0], **changed: Any) -> AnsweredHit:
    return AnsweredHit(lane, changed.pop("kept", kept(b"a")), request_id, NOW_US, **changed)


def added(*turns: Sequence[AnsweredHit]) -> list[Hits]:
    rows = HitRows(1_000)
    for turn in turns:
        rows.add(turn)
    taken = rows.take()
    assert rows.take() == []
    return taken


def whole(hits: Sequence[AnsweredHit]) -> Columns:
    return [
        *zip(*(whole_row(one.lane.version, one.kept, one.request_id, one.numbers) for one in hits), strict=True)
    ]


def rows_of(*many: Columns) -> list[Mapping[str, object]]:
    """In an order that does not depend on how rows were put together."""
    found = [row for columns in many for row in to_batch(columns)[0].to_pylist()]
    return sorted(found, key=repr)


@settings(deadline=None)  # the first array loads pandas
@given(SOME)
def test_the_columns_are_those_of_the_whole_rows(hits: list[AnsweredHit]) -> None:
    taken = added(hits[:3], hits[3:4], hits[4:]) if len(hits) > 4 else added(hits)
    assert rows_of(*(columns_of(one, NOTHING) for one in taken)) == rows_of(whole(hits))
    for one in taken:
        batch, bad = to_batch(columns_of(one, NOTHING))
        assert batch.schema.equals(REQUEST_LOG)
        assert bad == 0


@given(SOME)
def test_they_are_counted_as_the_whole_rows(hits: list[AnsweredHit]) -> None:
    mine = [columns_of(one, NOTHING) for one in added(hits)]
    assert samples(mine) == samples([whole([one]) for one in hits])


def samples(taken: Sequence[Columns]) -> Mapping[tuple[str, str], float]:
    metrics = Metrics(dict, disk_free=lambda: 0.0)
    metrics.fold([("m", columns) for columns in taken], {})
    found = {
        (one.name, str(sorted(one.labels.items()))): round(one.value, 6)
        for part in vars(metrics).values()
        if hasattr(part, "collect")
        for family in part.collect()
        for one in family.samples
        if "created" not in one.name
    }
    answered = found[("hotset_answer_seconds_count", "[('model', 'm'), ('source', 'precomputed')]")]
    assert answered == sum(len(columns[0]) for columns in taken)
    return found


def test_hits_of_a_turn_stay_in_order_and_share_what_they_were_told() -> None:
    told = [kept(b"entity %d" % number, confidence=number / 7) for number in range(7)]
    hits = [hit(b"%05d" % number, kept=told[number % 7]) for number in range(3_000)]
    rows = HitRows(10_000)
    for start in range(0, len(hits), 9):
        rows.add(hits[start : start + 9])
    (taken,) = rows.take()
    batch, bad = to_batch(columns_of(taken, NOTHING))
    assert batch.equals(to_batch(whole(hits))[0])
    assert bad == 0


def test_the_hits_of_a_batch_have_one_id_and_one_time() -> None:
    rows, told = HitRows(10), [kept(b"a"), kept(b"b"), kept(b"a")]
    rows.add_batch(LANES[0], b"batch", told, (NOW_US, 9, 1, 2, 3))
    rows.add([hit(b"other")])
    (taken,) = rows.take()
    hits = [AnsweredHit(LANES[0], one, b"batch", NOW_US, 9, 1, 2, 3) for one in told]
    assert to_batch(columns_of(taken, NOTHING))[0].equals(to_batch(whole([*hits, hit(b"other")]))[0])


def test_those_of_the_sample_leave_inputs_and_outputs_and_are_offered() -> None:
    offered = list[tuple[object, ...]]()
    share = 0.3
    samples = Samples(
        *(share, (), lambda view, entities: [{"of": entity.decode()} for entity in entities]),
        lambda *one: offered.append(one),
    )
    hits = [hit(b"%04d" % number, kept=kept(b"e%d" % (number % 9), outputs=(number,))) for number in range(500)]
    (taken,) = added(*([one] for one in hits))
    found = to_batch(columns_of(taken, samples))[0].to_pylist()
    places = [place_of(one.request_id, one.kept.entity) for one in hits]
    expected = [place < share * 2**32 for place in places]
    assert 100 < sum(expected) < 200
    for row, one, is_sampled in zip(found, hits, expected, strict=True):
        inputs = f'{{"of":"{one.kept.entity.decode()}"}}'
        assert (row["inputs"], row["outputs"]) == ((inputs, one.kept.outputs) if is_sampled else (None, None))
    version = LANES[0].version
    assert offered == [
        (place, one.request_id.decode(), None, version, one.kept.entity, "g", one.kept.outputs)
        for one, place, is_sampled in zip(hits, places, expected, strict=True)
        if is_sampled
    ]


def test_a_sample_that_cannot_be_taken_costs_no_row() -> None:
    def fail(view: object, entities: Sequence[bytes]) -> list[None]:
        raise OSError("the snapshot is gone")

    (taken,) = added([hit(), hit()])
    batch, bad = to_batch(columns_of(taken, Samples(1.0, (), fail)))
    assert (batch["request_id"].to_pylist(), batch["outputs"].null_count, bad) == (["r", "r"], 2, 0)


def test_a_bad_value_costs_itself_alone() -> None:
    (taken,) = added([hit(), hit(route_us=1 << 40), hit(b"\xff")])
    batch, bad = to_batch(columns_of(taken, NOTHING))
    assert bad == 1
    assert batch["route_us"].to_pylist() == [40, None, 40]
    assert batch["request_id"].to_pylist() == ["r", "r", "\\xff"]
    assert batch["entity"].to_pylist() == ["a", "a", "a"]


def test_hits_and_other_rows_leave_the_buffer_by_model_within_its_bound() -> None:
    buffer = RequestBuffer(["m", "n"], 10, NOTHING)
    for number in range(25):
        buffer.hits.add([hit(lane=LANES[number % 2])])
    buffer.add("n", whole_row(Version("7"), kept(b"a"), b"r", (NOW_US, 1, 2, 3, 4)))
    assert [(model, len(columns[0])) for model, columns in buffer.take()] == [("m", 5), ("m", 5), ("n", 1)]
    assert buffer.dropped == 15
    assert buffer.take() == []
    buffer.hits.add([hit()])
    assert [(model, len(columns[0])) for model, columns in buffer.take()] == [("m", 1)]


def test_hits_that_cannot_be_columns_are_counted_and_cost_the_others_nothing() -> None:
    buffer = RequestBuffer(["m"], 10, NOTHING)
    buffer.hits.add([hit(kept=kept(b"a", computed_at_ms=1 << 70))] * 2)
    buffer.hits.add([hit(lane=LANES[1])])
    ((_, columns),) = buffer.take()
    assert to_batch(columns)[0]["version"].to_pylist() == ["8"]
    assert buffer.dropped == 2


def test_what_was_told_is_let_go_once_the_columns_are_there() -> None:
    """Kept answers would outlive L1's."""
    buffer, kept_one = RequestBuffer(["m"], 1_000, NOTHING), kept(b"a")
    others = sys.getrefcount(kept_one)
    buffer.hits.add([hit(kept=kept_one) for _ in range(700)])
    assert sys.getrefcount(kept_one) == others + 700
    assert len(buffer.take()) == 1
    assert sys.getrefcount(kept_one) == others


def test_taken_while_they_are_added_each_is_whole_and_there_once() -> None:
    total, taken = 60_000, list[str]()
    rows, ended = HitRows(total), threading.Event()

    def take() -> None:
        while (some := rows.take()) or not ended.is_set():
            for one in some:
                batch, _ = to_batch(columns_of(one, NOTHING))
                pairs = zip(batch["request_id"].to_pylist(), batch["entity"].to_pylist(), strict=True)
                taken.extend(name for name, entity in pairs if entity == f"of {name}")

    taker = threading.Thread(target=take)
    taker.start()
    for number in range(0, total, 3):
        rows.add([hit(b"%d" % one, kept=kept(b"of %d" % one)) for one in range(number, number + 3)])
    ended.set()
    taker.join()
    take()
    assert sorted(taken, key=int) == [str(number) for number in range(total)]


def test_short_columns_are_sequences() -> None:
    (taken,) = added([hit(total_us=9), hit(total_us=9)])
    numbers = to_batch(columns_of(taken, NOTHING))[0]["total_us"].to_numpy()
    for column, values in (
        (Same(None, 3), [None] * 3),
        (Numbers(numbers), [9, 9]),
        (Coded(["a", "b"], numbers - 9), ["a", "a"]),
        (Texts("aüb".encode(), numbers[:0]), []),
        (Texts("aüb".encode(), numbers[:1] - 6), ["aü"]),
    ):
        assert [*column] == values
        assert len(column) == len(values)
        assert [column.count(value) for value in values] == [values.count(value) for value in values]

"""Plain hits in the log: what is left out of their rows comes back in the columns, and is counted the same."""

import threading
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from online.api.metrics.series import Metrics
from online.api.requestlog.arrays import to_batch
from online.api.requestlog.buffer import LogBuffer
from online.api.requestlog.columns import Coded, Columns, Numbers, Same, Texts
from online.api.requestlog.hit_rows import PACKED_ROWS, HitRow, HitRows, whole_row
from schemas.arrow import REQUEST_LOG

NOW_US = 1_796_000_000_000_000
NAMES = st.sampled_from(["7", "8", "on time", "ünlü"])
MOMENTS_US = st.integers(1_700_000_000_000_000, 1_900_000_000_000_000)
TIMES_US = st.integers(0, (1 << 31) - 1)
# As `HitRow` has them.
HITS = st.tuples(
    *(st.text(max_size=20).map(encoded := lambda text: text.encode()), st.text(max_size=9).map(encoded)),
    *(NAMES, st.none() | NAMES, st.none() | NAMES, st.none() | st.floats(0, 1)),
    *(MOMENTS_US, MOMENTS_US.map(lambda us: us // 1000), TIMES_US, TIMES_US, TIMES_US, TIMES_US),
)
SOME = st.lists(HITS, min_size=1, max_size=8)
HIT: HitRow = (b"r", b"a", "7", "g", "late", 0.5, NOW_US, NOW_US // 1000, 9, 1, 2, 3)


def packed(hits: Sequence[HitRow]) -> Columns:
    rows = HitRows(10 * PACKED_ROWS)
    for hit in hits:
        rows.add(hit)
    columns = rows.take()
    assert columns is not None
    assert rows.take() is None
    return columns


def whole(hits: Sequence[HitRow]) -> Columns:
    return [*zip(*map(whole_row, hits), strict=True)]


@settings(deadline=None)  # the first array loads pandas
@given(SOME)
def test_the_columns_are_those_of_the_whole_rows(hits: list[HitRow]) -> None:
    batch, bad = to_batch(packed(hits))
    expected, _ = to_batch(whole(hits))
    assert batch.equals(expected)
    assert batch.schema.equals(REQUEST_LOG)
    assert bad == 0


@given(SOME)
def test_they_are_counted_as_the_whole_rows(hits: list[HitRow]) -> None:
    assert samples(packed(hits)) == samples(whole(hits))


def samples(columns: Columns) -> Mapping[tuple[str, str], float]:
    metrics = Metrics(dict, disk_free=lambda: 0.0)
    metrics.fold([("m", columns)], {})
    found = {
        (one.name, str(sorted(one.labels.items()))): one.value
        for part in vars(metrics).values()
        if hasattr(part, "collect")
        for family in part.collect()
        for one in family.samples
        if "created" not in one.name
    }
    assert found[("hotset_answer_seconds_count", "[('model', 'm'), ('source', 'precomputed')]")] == len(columns[0])
    return found


def test_rows_of_several_packs_stay_in_order() -> None:
    hits: list[HitRow] = [
        (b"%d" % number, b"a" * (number % 7), str(number // 700), "g", "late", None, NOW_US + number, *HIT[7:])
        for number in range(2 * PACKED_ROWS + 3)
    ]
    batch, bad = to_batch(packed(hits))
    assert batch.equals(to_batch(whole(hits))[0])
    assert bad == 0


def test_a_bad_value_costs_itself_alone() -> None:
    long_us: HitRow = (*HIT[:9], 1 << 40, 2, 3)
    no_text: HitRow = (b"\xff", *HIT[1:])
    batch, bad = to_batch(packed([HIT, long_us, no_text]))
    assert bad == 1
    assert batch["route_us"].to_pylist() == [1, None, 1]
    assert batch["request_id"].to_pylist() == ["r", "r", "\\xff"]
    assert batch["entity"].to_pylist() == ["a", "a", "a"]


def test_hits_and_other_rows_leave_the_buffer_by_model_within_its_bound() -> None:
    buffer = LogBuffer(["m", "n"], PACKED_ROWS)
    for _ in range(2 * PACKED_ROWS + 1):
        buffer.hits["m"].add(HIT)
    buffer.add("n", whole_row(HIT))
    assert [(model, len(columns[0])) for model, columns in buffer.take()] == [("m", PACKED_ROWS + 1), ("n", 1)]
    assert buffer.dropped == PACKED_ROWS
    assert buffer.take() == []


def test_taken_while_they_are_added_each_is_whole_and_there_once() -> None:
    total, taken = 60_000, list[str]()
    rows, ended = HitRows(total), threading.Event()

    def take() -> None:
        while (columns := rows.take()) or not ended.is_set():
            if columns:
                batch, _ = to_batch(columns)
                pairs = zip(batch["request_id"].to_pylist(), batch["entity"].to_pylist(), strict=True)
                taken.extend(name for name, entity in pairs if entity == f"of {name}")

    taker = threading.Thread(target=take)
    taker.start()
    for number in range(total):
        rows.add((b"%d" % number, b"of %d" % number, *HIT[2:]))
    ended.set()
    taker.join()
    take()
    assert sorted(taken, key=int) == [str(number) for number in range(total)]


def test_short_columns_are_sequences() -> None:
    for column, values in (
        (Same(None, 3), [None] * 3),
        (Numbers(packed_numbers := to_batch(packed([HIT, HIT]))[0]["total_us"].to_numpy()), [9, 9]),
        (Coded(["a", "b"], packed_numbers - 9), ["a", "a"]),
        (Texts("aüb".encode(), packed_numbers[:0]), []),
        (Texts("aüb".encode(), packed_numbers[:1] - 6), ["aü"]),
    ):
        assert [*column] == values
        assert len(column) == len(values)
        assert [column.count(value) for value in values] == [values.count(value) for value in values]

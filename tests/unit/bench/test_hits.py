"""The benchmark of hits: what it asks and takes for right, and the figures from made-up turns."""

from collections import Counter
from dataclasses import replace

import numpy as np
import orjson
import pytest

from tests.bench.hits.asking import (
    BATCH_ENTITIES,
    Draw,
    batch_document,
    batch_of,
    get,
    is_batch,
    is_constant,
    is_document,
    is_feast_document,
    post,
)
from tests.bench.hits.contenders import BATCH, FLOOR, HOTSET, HOTSET_L1, PLAIN, Contender
from tests.bench.hits.entities import ENTITIES, document_of, entity_of, features_of, owner_of, value_of
from tests.bench.hits.measure import Turn, check
from tests.bench.hits.memory import Footprint
from tests.bench.hits.plan import FULL, PARTS, QUICK
from tests.bench.hits.results import Results
from tests.bench.load.summary import Latencies

CONTRACT = {
    "closed16_over_floor", "closed16_over_plain", "closed16_l1_over_floor", "open1000_p50_over_floor",
    "open1000_p99_over_floor", "open1000_p50_ms", "open1000_p99_ms", "open2000_errors", "open2000_p99_ms",
    "batch_entities_per_s", "bytes_per_entity", "crossovers",
}  # fmt: skip

ASKED = Contender("hotset", 80, 1, get("/v1/{}"), is_document)


def body_of(number: int, **changes: object) -> bytes:
    return orjson.dumps({**document_of(number), "request_id": "r", **changes})


def http(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


def test_every_entity_has_features_and_a_shown_value_of_its_own() -> None:
    numbers = range(ENTITIES)
    assert len({tuple(features_of(number).values()) for number in numbers}) == ENTITIES
    shown = [round(float(np.float32(value_of(number))), 6) for number in numbers]
    assert [owner_of(value) for value in shown] == list(numbers)
    assert owner_of(0.1234567) is None
    assert owner_of(-0.5) is None


def test_the_draw_is_zipf_and_repeats_by_its_seed() -> None:
    draw = Draw(seed=3)
    drawn = draw.numbers(50_000, seed=1)
    assert drawn == Draw(seed=3).numbers(50_000, seed=1)
    assert drawn != draw.numbers(50_000, seed=2)
    counts = [count for _, count in Counter(drawn).most_common(2)]
    harmonic = float((1 / np.arange(1, ENTITIES + 1)).sum())
    assert np.array(counts) / 50_000 == pytest.approx([1 / harmonic, 0.5 / harmonic], rel=0.1)
    assert Counter(draw.numbers(50_000, seed=1, is_skewed=False)).most_common(1)[0][1] < 10


def test_requests_are_whole_http_and_name_their_entity() -> None:
    assert get("/v1/{}")(7) == b"GET /v1/e0000007 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    head, _, body = post("/v1/all", batch_document)(3).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert orjson.loads(body)["items"] == [entity_of(number) for number in batch_of(3)]
    assert len(set(batch_of(3))) == BATCH_ENTITIES
    assert set(batch_of(3)).isdisjoint(batch_of(4))


def test_the_right_document_is_right() -> None:
    assert is_document(5, body_of(5)) is None


@pytest.mark.parametrize(
    ("changes", "is_crossover"),
    [
        ({"entity": "e0000006"}, True),
        ({"outputs": document_of(6)["outputs"]}, True),
        ({"outputs": {"late": 0.1234567}}, False),
        ({"version": "2"}, False),
        ({"generation": "another"}, False),
        ({"source": "live"}, False),
        ({"source": "stale"}, False),
        ({"label": "neither"}, False),
        ({"confidence": 0.0}, False),
    ],
)
def test_any_wrong_part_of_a_document_is_told(changes: dict[str, object], is_crossover: bool) -> None:
    fault = is_document(5, body_of(5, **changes))
    assert fault is not None
    assert fault.is_crossover is is_crossover


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b'{"entity":"e0000005"}'])
def test_what_is_no_document_is_told(body: bytes) -> None:
    for judge in (is_document, is_batch, is_feast_document, is_constant(b"constant")):
        fault = judge(5, body)
        assert fault is not None
        assert not fault.is_crossover


def test_a_batch_is_right_only_with_all_results_in_order() -> None:
    results = [orjson.loads(body_of(number)) for number in batch_of(9)]
    assert is_batch(9, orjson.dumps({"results": results})) is None
    swapped = [results[1], results[0], *results[2:]]
    for wrong, is_crossover in ((swapped, True), (results[:-1], False)):
        fault = is_batch(9, orjson.dumps({"results": wrong}))
        assert fault is not None
        assert fault.is_crossover is is_crossover


def test_feast_s_columns_are_read() -> None:
    def columns(entity: str, value: float) -> bytes:
        results = [{"values": [entity]}, {"values": [value]}]
        return orjson.dumps({"results": results, "metadata": {"feature_names": ["entity", "late"]}})

    assert is_feast_document(5, columns(entity_of(5), value_of(5))) is None
    fault = is_feast_document(5, columns(entity_of(5), value_of(6)))
    assert fault is not None
    assert fault.is_crossover


def test_answers_are_sorted_into_good_errors_and_faults() -> None:
    answers = [http(body_of(1)), b"", http(b'{"code":"overloaded"}', 503), http(b"x", 500), http(body_of(6))]
    checked = check(ASKED, [1, 2, 3, 4, 5], answers)
    assert checked.is_good.tolist() == [True, False, False, False, False]
    assert checked.errors == {"no_answer": 1, "overloaded": 1, "500": 1}
    assert [fault.is_crossover for fault in checked.faults] == [True]


def turn(name: str, per_s: float, p50_ms: float = 1.0, **changes: object) -> Turn:
    latency = Latencies(100, p50_ms, p50_ms, 3 * p50_ms)
    return replace(Turn(name, per_s, latency, {}, 0, 0, 100.0, 10.0, 0.1, 0.2, 100), **changes)


def made_up() -> Results:
    """A machine that gets half as quick: ratios within the rounds do not see it."""
    closed = [
        {
            FLOOR: turn(FLOOR, 10_000 / slow),
            HOTSET: turn(HOTSET, 8000 / slow),
            PLAIN: turn(PLAIN, 4000 / slow),
            HOTSET_L1: turn(HOTSET_L1, 9000 / slow),
        }
        for slow in (1, 1, 2)
    ]
    opened = [{FLOOR: turn(FLOOR, 1000, 0.5 * slow), HOTSET: turn(HOTSET, 1000, 0.6 * slow)} for slow in (1, 2, 4)]
    rounds = {"closed16": closed, "open1000": opened, "open2000": [dict(one) for one in opened]}
    rounds["batch"] = [{BATCH: turn(BATCH, 400.0)}]
    memory = [
        Footprint("valkey", output, 10, size, 1.0, 1.0) for output, size in (("label", 36.0), ("top5", 80.0))
    ]
    return Results(rounds=rounds, memory=memory)


def test_the_line_of_json_holds_the_contract_s_keys_as_numbers() -> None:
    line = made_up().to_json()
    assert b"\n" not in line
    found = orjson.loads(line)
    assert {name for name in CONTRACT if isinstance(found[name], int | float)} == CONTRACT
    assert found["closed16_over_floor"] == pytest.approx(0.8)
    assert found["closed16_over_plain"] == pytest.approx(2.0)
    assert found["closed16_l1_over_floor"] == pytest.approx(0.9)
    assert found["open1000_p50_over_floor"] == pytest.approx(1.2)
    assert found["open1000_p99_ms"] == pytest.approx(3.6)
    assert found["batch_entities_per_s"] == 40_000
    assert found["bytes_per_entity"] == 36.0


def test_an_error_or_a_wrong_answer_is_no_success_but_others_may_break() -> None:
    results = made_up()
    assert results.is_good
    first = results.rounds["open2000"][0]
    first[PLAIN] = turn(PLAIN, 10.0, errors={"500": 7})
    assert results.is_good
    first[HOTSET] = turn(HOTSET, 10.0, errors={"live_unavailable": 2})
    assert not results.is_good
    assert results.document()["open2000_errors"] == 2
    first[HOTSET] = turn(HOTSET, 10.0, wrong=1, crossovers=1)
    assert not results.is_good
    assert results.document()["crossovers"] == 1
    assert not Results(settling=[turn(FLOOR, 1.0, errors={"no_answer": 1})]).is_good


def test_parts_can_be_chosen_alone_and_both_plans_have_all() -> None:
    for plan in (FULL, QUICK):
        assert {load.part for load in plan.loads} | {"feast", "memory"} == set(PARTS)
    only = FULL.only(["closed16", "memory"])
    assert [load.part for load in only.loads] == ["closed16"]
    assert only.memory_entities
    assert not only.feast
    assert not FULL.only(["batch"]).memory_entities

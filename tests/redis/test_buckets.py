"""Buckets in a real Valkey: how they are stored, and what a writer that is killed leaves."""

from itertools import groupby
from operator import itemgetter

import pyarrow as pa
import pytest
from pydantic import SecretStr
from redis import Redis

from batch_scoring.bucket_bytes import COLUMNS, digest_bytes, slices, wire_buckets
from batch_scoring.bucket_writer import write_buckets
from batch_scoring.checksum import add, bucket_digest, packed_digest
from batch_scoring.publishing.document import change_document, read_document
from batch_scoring.runs import Refused
from batch_scoring.settings import BatchSettings
from batch_scoring.store import held, unlink
from schemas.keys import bucket_count, bucket_of, field_of, run_key
from schemas.routes import Activation, Generation, RoutesDocument
from schemas.transitions import first_document

PREFIX = "hs:m:g:1:20261128T0200Z-1:"


def settings(redis_url: str, **others: object) -> BatchSettings:
    return BatchSettings.model_validate({"redis_url": SecretStr(redis_url), **others})


def rows(entities: list[str], value: bytes = b"v" * 21) -> list[tuple[int, bytes, bytes]]:
    buckets = bucket_count(len(entities))
    raw = [entity.encode() for entity in entities]
    return sorted((bucket_of(one, buckets), field_of(one), value) for one in raw)


def test_buckets_stay_listpacks_whatever_the_ids(redis_url: str) -> None:
    entities = (
        [f"{'é' * 100}{i}" for i in range(500)] + [f"\x00{i}" for i in range(500)] + [f"F{i}" for i in range(9000)]
    )
    written = rows(entities)
    assert write_buckets(written, PREFIX, settings(redis_url)) == len(entities)
    with Redis.from_url(redis_url) as redis:
        keys = redis.keys(f"{PREFIX}*")
        assert {redis.object("ENCODING", key) for key in keys} == {b"listpack"}
        assert sum(redis.hlen(key) for key in keys) == len(entities)


@pytest.mark.parametrize("batch", [1, 7, 100_000])
def test_a_bucket_is_replaced_whole_however_much_goes_in_a_write(redis_url: str, batch: int) -> None:
    entities = [f"F{i}" for i in range(300)]
    with Redis.from_url(redis_url) as redis:
        redis.hset(f"{PREFIX}0", "left by an earlier attempt", "x")
        for _ in range(2):
            assert write_buckets(rows(entities), PREFIX, settings(redis_url, write_batch_entities=batch)) == 300
            found = {(key, *pair) for key in redis.keys(f"{PREFIX}*") for pair in redis.hgetall(key).items()}
            assert found == {(f"{PREFIX}{bucket}".encode(), name, value) for bucket, name, value in rows(entities)}


def test_no_rows_write_nothing(redis_url: str) -> None:
    assert write_buckets([], PREFIX, settings(redis_url)) == 0


def test_a_full_redis_is_an_error_and_keeps_the_old_bucket(redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis:
        write_buckets([(0, b"old", b"1")], PREFIX, settings(redis_url))
        redis.config_set("maxmemory", 1)
        try:
            with pytest.raises(Exception, match="maxmemory"):
                write_buckets([(0, b"new", b"2")], PREFIX, settings(redis_url))
        finally:
            redis.config_set("maxmemory", 0)
        assert redis.hgetall(f"{PREFIX}0") == {b"old": b"1"}


def test_keys_are_counted_and_deleted_by_name(redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis:
        names = [f"k{i}" for i in range(1234)]
        redis.mset(dict.fromkeys(names[:1200], 1))
        assert held(redis, names) == 1200
        assert unlink(redis, names) == 1200
        assert held(redis, names) == 0


def test_a_checksum_tells_fields_values_and_their_border_apart_but_not_their_order() -> None:
    one, two = bucket_digest(0, [b"ab"], [b"c"]), bucket_digest(1, [b"x", b"y"], [b"", b"z"])
    assert one not in {bucket_digest(0, [b"a"], [b"bc"]), bucket_digest(1, [b"ab"], [b"c"])}
    assert two != bucket_digest(1, [b"x", b"y"], [b"z", b""])
    assert add(one, two) == add(two, one)


@pytest.mark.parametrize("size", [2, 300, 5500, 20_000])
def test_buckets_are_the_same_however_their_rows_come(size: int) -> None:
    ids = [f"F{i}" for i in range(6000)] + [f"{'é' * 40}{i}" for i in range(60)] + ["\x00odd"]
    written = [(bucket, field, b"v" * (len(field) % 5)) for bucket, field, _ in rows(ids)]
    columns = zip(*written, strict=True)
    types = (pa.int32(), pa.binary(), pa.binary())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    whole = pa.Table.from_arrays(arrays, COLUMNS)
    found = list(slices(whole.slice(begin, size) for begin in range(0, len(written), size)))
    sent = b"".join(bytes(bucket.body) for one in found for bucket in wire_buckets(one))
    assert sent == b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for _, *pair in written for text in pair)
    wanted = {number: list(group) for number, group in groupby(written, key=itemgetter(0))}
    assert [number for one in found for number in one.buckets] == list(wanted)
    for one in found:
        packed = digest_bytes(one)
        for number, begin, end in zip(one.buckets, [0, *one.ends[:-1]], one.ends, strict=True):
            _, fields, values = zip(*wanted[number], strict=True)
            assert packed_digest(number, packed.piece(begin, end)) == bucket_digest(number, fields, values)


def _offer(token: int = 1) -> Activation:
    generation = Generation(id="20261128T0200Z-1", ordinal=1, buckets=1, codec=1, rows=1, computed_at_ms=1)
    return Activation(
        model="m",
        version="1",
        bundle_url="u",
        bundle_digest="a" * 64,
        generation=generation,
        features=None,
        token=token,
    )


def test_a_change_that_came_first_is_read_and_the_transition_applied_to_it(redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis:
        redis.set(run_key("m"), 1)
        change_document(redis, "m", "first", lambda _: first_document(_offer(), 1000), token=1)
        raced = False

        def transition(document: RoutesDocument | None) -> RoutesDocument:
            nonlocal raced
            assert document
            if not raced:
                raced = True
                change_document(redis, "m", "in between", lambda d: d and _bumped(d))  # type: ignore[arg-type, return-value]
            return _bumped(document)

        assert change_document(redis, "m", "mine", transition).revision == 3
        newest = redis.lindex("hs:{m}:history", 0)
        assert b"mine" in newest


def test_a_token_that_is_not_the_newest_changes_nothing(redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis:
        redis.set(run_key("m"), 2)
        with pytest.raises(Refused, match="a newer run has begun"):
            change_document(redis, "m", "zombie", lambda _: first_document(_offer(), 1000), token=1)
        assert read_document(redis, "m") is None


def _bumped(document: RoutesDocument) -> RoutesDocument:
    return document.model_copy(update={"revision": document.revision + 1})

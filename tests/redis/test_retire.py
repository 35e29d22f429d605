"""What leaves Redis and when: by name, not before its time, no faster than the limit, and never by itself."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis

from batch_scoring.publishing.activate import rollback
from batch_scoring.publishing.retire import retire
from batch_scoring.store import Pace, connect, unlink
from schemas.keys import MEAN_BUCKET_FIELDS, bucket_key, generation_manifest_key
from tests.support.released import Released

LAST = "the test is over"
# Commands that ask for keys by pattern, that delete what was not named, or that let it go by itself.
NEVER = {"SCAN", "KEYS", "RANDOMKEY", "FLUSHALL", "FLUSHDB", "DEBUG", "SWAPDB"}
EXPIRING = {"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "SETEX", "PSETEX"}


@contextmanager
def watched(url: str) -> Iterator[list[list[str]]]:
    """The commands that the server is given meanwhile, complete when the block ends."""
    said: list[list[str]] = []
    ready = threading.Event()

    def listen() -> None:
        with Redis.from_url(url) as redis, redis.monitor() as monitor:
            ready.set()
            for one in monitor.listen():
                if one["command"] == f"ECHO {LAST}":
                    return
                said.append(one["command"].split(" "))

    listener = threading.Thread(target=listen)
    listener.start()
    ready.wait(10)
    try:
        yield said
    finally:
        with Redis.from_url(url) as redis:
            redis.echo(LAST)
        listener.join(10)


def set_clock(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Redis's, as the steps are told it, so many seconds later than it is."""
    asked = Redis.time
    patch.setattr(Redis, "time", lambda client: (asked(client)[0] + seconds, asked(client)[1]))


def test_all_steps_name_their_keys_and_nothing_of_a_night_expires(made: Released) -> None:
    with watched(made.redis_url) as said:
        for day in (26, 27, 28):
            run = made.active(day, day)
            retire(run, made.settings)
        rollback(made.settings, "delay", "to see")
    commands = {words[0].upper() for words in said}
    assert {"HSET", "HGETALL", "HGET", "EVALSHA", "UNLINK"} <= commands, "the night was not watched"
    assert commands & (NEVER | EXPIRING) == set()
    assert [words for words in said if words[0].upper() == "SET" and {"EX", "PX", "EXAT"} & set(words)] == []
    left = [key.decode() for key in made.redis.keys("*")]
    assert {key.split(":")[4] for key in left if ":g:" in key} == {"20261127T0200Z-1", "20261128T0200Z-1"}
    assert {key: made.redis.ttl(key) for key in left if made.redis.ttl(key) != -1} == {}


def test_what_is_out_of_service_stays_for_a_minute(made: Released, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that began before the switch may still read it."""
    settings = made.settings.model_copy(update={"retire_after_s": 60})
    oldest, _, newest = (made.active(day, day) for day in (26, 27, 28))
    gone = bucket_key("delay", "1", oldest.generation, 0), generation_manifest_key("delay", "1", oldest.generation)
    for seconds, deleted in ((0, []), (58, []), (61, [oldest.generation])):
        with monkeypatch.context() as patch:
            set_clock(patch, seconds)
            said = retire(newest, settings)
        assert (seconds, said["deleted"]) == (seconds, deleted)
        assert made.redis.exists(*gone) == (0 if deleted else 2)


def test_deletions_go_no_faster_than_the_limit_and_some_at_a_time(made: Released) -> None:
    names = [f"hs:m:g:1:20261128T0200Z-1:{bucket}" for bucket in range(150)]
    made.redis.mset(dict.fromkeys(names, "v"))
    limited = made.settings.model_copy(update={"max_entities_per_s": 300 * MEAN_BUCKET_FIELDS})
    with connect(limited) as redis, watched(made.redis_url) as said:
        began_s = time.monotonic()
        assert unlink(redis, names, Pace.of(limited, weight=MEAN_BUCKET_FIELDS)) == 150
        took_s = time.monotonic() - began_s
    assert [len(words) - 1 for words in said if words[0] == "UNLINK"] == [50, 50, 50]
    assert took_s > 2 * 50 / 300 - 0.01

"""Invalidations: since when, by Redis's clock, an entity's stored answers no longer count.

They lie in Redis (`hs:m:x`), and every worker keeps all of them in memory, since each look-up asks. A worker reads
what is new twice a second, and everything when it starts, when its connection was lost, and each minute. What it
knows it keeps while Redis is away, or if Redis has lost it.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Self

import hiredis

from online.api.lookup.clock import RedisClock
from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import Command, command
from online.api.lookup.values import CLOCK_ERROR_MS
from online.api.routes.view import ModelView
from online.errors import InvalidationsFull, StoreUnavailable
from schemas.keys import invalidations_key

log = logging.getLogger(__name__)

_POLL_S = 0.4
_RELOAD_S = 60.0
# Read anew with each poll: the clock may have been set back by so much, and a write may have taken as long.
_OVERLAP_MS = 2000
_PAGE = 2000
# Written-back results of versions that are not routed now, whose lifetime is not known here, are taken to be gone.
_KEPT_AT_LEAST_MS = 24 * 3600 * 1000

# KEYS: the sorted set. ARGV: until when they are pruned, how many there may be, the time, entities. In one step,
# so that too many are refused as a whole. The time is the caller's: on a cluster this node has another clock than
# the one that answers are dated by. Returns how many there are now; where there would be too many, -1 - how many.
_INVALIDATE_LUA = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
local entities, new = {}, 0
for place = 4, #ARGV do entities[place - 3] = ARGV[place] end
for _, score in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(entities))) do
  if not score then new = new + 1 end
end
local held = redis.call('ZCARD', KEYS[1])
if held + new > tonumber(ARGV[2]) then return -held - 1 end
local words = {}
for _, entity in ipairs(entities) do
  words[#words + 1] = ARGV[3]
  words[#words + 1] = entity
end
redis.call('ZADD', KEYS[1], 'GT', unpack(words))
return held + new
"""


class Invalidations:
    """Use as `async with`. `views` are the follower's, by model; at most `most` entities a model are held."""

    def __init__(
        self, models: Sequence[str], link: RedisLink, clock: RedisClock, views: Mapping[str, ModelView], most: int
    ) -> None:
        self._link, self._clock, self._views, self._most = link, clock, views, most
        self._models = [_Model(model) for model in models]
        self._by_name = {model.name: model for model in self._models}
        self._connects = -1
        self._reload_at_s = 0.0
        self.loaded = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._follow(), name="invalidations")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    def of(self, model: str) -> Mapping[bytes, int] | None:
        """Entity to ms; None until they could be read once, when nothing stored may be answered."""
        found = self._by_name[model]
        return found.marks if found.is_loaded else None

    @property
    def held(self) -> int:
        return sum(len(model.marks) for model in self._models)

    async def add(self, model: str, entities: Sequence[bytes]) -> int:
        """Invalidates the entities as one step; returns when, in ms. In this worker it holds at once.

        Raises:
            InvalidationsFull: there are too many that no newer generation has made needless.
            StoreUnavailable: Redis refused, or did not say that it had taken them: ask again.
        """
        found = self._by_name[model]
        at_ms = self._clock.now_ms()
        numbers = [b"%d" % number for number in (self._needless_until_ms(found), self._most, at_ms)]
        words = [b"EVAL", _INVALIDATE_LUA.encode(), b"1", found.key, *numbers, *entities]
        try:
            (reply,) = await self._link.ask([(found.key, command(*words))])
        except (RedisDown, RedisSlow) as error:
            raise StoreUnavailable("Redis did not confirm the invalidation: ask again") from error
        if not isinstance(reply, int):
            log.warning("an invalidation is refused", extra={"model": model, "error": str(reply)})
            raise StoreUnavailable("Redis does not take writes at the moment")
        if reply < 0:
            raise InvalidationsFull(
                f"{-reply - 1} entities are invalidated, of {self._most} at most: a new generation makes room"
            )
        found.take(dict.fromkeys(entities, at_ms))
        return at_ms

    async def _follow(self) -> None:
        while True:
            try:
                await self._read()
            except (RedisDown, RedisSlow):
                self._connects = -1
            except Exception:
                # A reply of another shape is no reason to follow no longer.
                log.exception("invalidations cannot be read")
            await asyncio.sleep(_POLL_S)

    async def _read(self) -> None:
        connects, now_s = self._link.counts.connects, self._loop.time()
        if connects != self._connects or now_s >= self._reload_at_s:
            for model in self._models:
                await self._reload(model)
            self._connects, self._reload_at_s = connects, now_s + _RELOAD_S
            self.loaded.set()
            return
        replies = await self._link.ask([_newer(model.key, model.newest_ms) for model in self._models])
        for model, reply in zip(self._models, replies, strict=True):
            found = _pairs(reply)
            model.take(found)
            if len(found) >= _PAGE:
                self._reload_at_s = 0.0  # more than one poll takes: the next reads all

    async def _reload(self, model: "_Model") -> None:
        """By cursor: whatever is there all the while is seen, and no page holds up the event loop."""
        needless_ms = self._needless_until_ms(model)
        cursor = b"0"
        while True:
            asked = command(b"ZSCAN", model.key, cursor, b"COUNT", b"%d" % _PAGE)
            (reply,) = await self._link.ask([(model.key, asked)])
            if not isinstance(reply, list):
                _raise_unless_refused(reply)
                if not model.is_loaded:
                    log.warning("invalidations cannot be read", extra={"model": model.name, "error": str(reply)})
                break
            cursor, found = reply
            model.take(_pairs(found))
            if cursor == b"0":
                break
        model.is_loaded = True
        if model.prune(needless_ms, 2 * self._most):
            pruning = command(b"ZREMRANGEBYSCORE", model.key, b"-inf", b"%d" % needless_ms)
            await self._link.ask([(model.key, pruning)])

    def _needless_until_ms(self, model: "_Model") -> int:
        """What was computed earlier than this can no longer be read: every retained generation is newer."""
        view = self._views.get(model.name)
        if view is None:
            return 0
        versions = view.document.versions.values()
        computed_ms = [made.computed_at_ms for version in versions for made in version.generations]
        lifetime_ms = max(_KEPT_AT_LEAST_MS, *(version.live_ttl_ms for version in view.versions.values()))
        return max(0, min([*computed_ms, self._clock.now_ms() - lifetime_ms]) - 2 * CLOCK_ERROR_MS)


class _Model:
    """What is known of one model: entity to ms."""

    def __init__(self, name: str) -> None:
        self.name, self.key = name, invalidations_key(name).encode()
        self.marks: dict[bytes, int] = {}
        self.newest_ms = 0
        self.is_loaded = False

    def take(self, found: Mapping[bytes, int]) -> None:
        marks = self.marks
        for entity, ms in found.items():
            if ms > marks.get(entity, -1):
                marks[entity] = ms
                self.newest_ms = max(self.newest_ms, ms)

    def prune(self, until_ms: int, most: int) -> bool:
        """Whether anything was needless. Over `most` the oldest go: Redis has lost them, and got others since."""
        needless = [entity for entity, ms in self.marks.items() if ms <= until_ms]
        for entity in needless:
            del self.marks[entity]
        if len(self.marks) > most:
            for entity in sorted(self.marks, key=self.marks.__getitem__)[:-most]:
                del self.marks[entity]
        return bool(needless)


def _newer(key: bytes, newest_ms: int) -> Command:
    since = b"%d" % max(0, newest_ms - _OVERLAP_MS)
    return (
        key,
        command(b"ZRANGEBYSCORE", key, since, b"+inf", b"WITHSCORES", b"LIMIT", b"0", b"%d" % _PAGE),
    )


def _pairs(reply: object) -> dict[bytes, int]:
    """Members and scores in turn."""
    if not isinstance(reply, list):
        _raise_unless_refused(reply)
        return {}
    return {entity: int(float(ms)) for entity, ms in zip(reply[::2], reply[1::2], strict=True)}


def _raise_unless_refused(reply: object) -> None:
    """A server that does not allow the command will not later: one does without. Else raises RedisDown."""
    if not (isinstance(reply, hiredis.ReplyError) and str(reply).startswith(("NOPERM", "ERR"))):
        raise RedisDown(f"invalidations cannot be read now: {reply}")

"""Stored values for when live cannot answer: over their age, or the previous generation's, within a bound."""

import asyncio
from collections.abc import Sequence

from online.api.answering.miss import Miss
from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import Command, hget
from online.api.lookup.values import Found, Verdict, choose, questions, read
from online.api.routes.view import Layer, VersionView
from schemas.codec import Prediction
from schemas.http import MissReason, Source
from schemas.keys import bucket_of, field_of


class Spare:
    """The answer to come for some misses: each gets `expired`, where something older is found that it has not."""

    def __init__(self, misses: Sequence[Miss], ends: Sequence[int], reply: "asyncio.Future[list[object]]") -> None:
        self._misses, self._ends, self._reply = misses, ends, reply
        self._reply.add_done_callback(_see)

    async def settled(self, deadline_s: float) -> None:
        """Returns once it has come, or cannot; at the deadline at the latest."""
        if not self._reply.done():
            left_s = deadline_s - asyncio.get_running_loop().time()
            await asyncio.wait([self._reply], timeout=max(0.0, left_s))
        if not self._reply.done() or self._reply.cancelled() or self._reply.exception() is not None:
            return
        replies, begin = self._reply.result(), 0
        for miss, end in zip(self._misses, self._ends, strict=True):
            _take(miss, replies[begin:end])
            begin = end


class Spares:
    """One for all models of a worker."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    def ask(self, version: VersionView, misses: Sequence[Miss]) -> Spare | None:
        """Asks for the previous generation's values, and for what was not looked up as asked. Does not wait."""
        commands: list[Command] = []
        ends = []
        for miss in misses:
            if miss.tensors is None:
                if miss.reason is MissReason.NO_CACHE:
                    commands += questions(version, miss.item.raw)
                if version.previous is not None:
                    commands.append(_question(version.previous, miss.item.raw))
            ends.append(len(commands))
        if not commands:
            return None
        try:
            return Spare(misses, ends, self._link.ask(commands))
        except RedisDown:
            return None

    def usable(self, miss: Miss, now_ms: int) -> Found | None:
        """What may be answered as stale."""
        found, version = miss.expired, miss.version
        if found is None:
            return None
        computed_at_ms = found.prediction.computed_at_ms
        is_within_bound = now_ms - computed_at_ms <= (version.max_age_ms or 0) + version.stale_ms
        is_valid = miss.limits.judge(computed_at_ms) is not Verdict.INVALIDATED
        return found if is_within_bound and is_valid else None


def _question(layer: Layer, entity: bytes) -> Command:
    return hget(layer.prefix + b"%d" % bucket_of(entity, layer.buckets), field_of(entity))


def _take(miss: Miss, replies: list[object]) -> None:
    """The newest of what was there already, what was not looked up, and the previous generation's."""
    version, entity = miss.version, miss.item.raw
    found: list[Found] = [] if miss.expired is None else [miss.expired]
    if replies and version.previous is not None:
        older = read(version, entity, version.previous.ordinal, replies.pop())
        if isinstance(older, Prediction):
            found.append(Found(older, Source.PRECOMPUTED, None, None, version.previous.generation))
    if replies:
        chosen = choose(version, entity, replies, miss.limits)
        if isinstance(chosen, Found):
            found.append(chosen)
    miss.expired = max(found, key=lambda one: one.prediction.computed_at_ms, default=None)


def _see(reply: "asyncio.Future[list[object]]") -> None:
    """An exception counts as seen: most of these are never looked at."""
    if not reply.cancelled() and isinstance(reply.exception(), RedisDown | RedisSlow):
        return

"""Writes live results back to Redis, off the critical path: dropped, counted by reason, when Redis is behind."""

import asyncio
from collections import Counter

import hiredis

from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import set_px
from schemas.admission import Admission


class WriteBack:
    """On a link of its own, so that a refused or slow write never delays a look-up.

    Args:
        admission: of the keys, by how often they were missed in this worker.
    """

    def __init__(self, link: RedisLink, max_waiting: int, admission: Admission) -> None:
        self._link, self._max_waiting, self._admission = link, max_waiting, admission
        self.waiting = 0
        self.written = 0
        self.dropped: Counter[str] = Counter()

    def offer(self, key: bytes, packed: bytes, ttl_ms: int) -> None:
        """Never waits and never fails."""
        if not self._admission.admits(key):
            self.dropped["rare"] += 1
            return
        if self.waiting >= self._max_waiting:
            self.dropped["behind"] += 1
            return
        try:
            reply = self._link.ask([set_px(key, packed, ttl_ms)])
        except RedisDown:
            self.dropped["down"] += 1
            return
        self.waiting += 1
        reply.add_done_callback(self._on_reply)

    def _on_reply(self, reply: "asyncio.Future[list[object]]") -> None:
        self.waiting -= 1
        if reply.cancelled():
            return
        said = reply.exception() or reply.result()[0]
        if isinstance(said, RedisSlow):
            self.dropped["slow"] += 1
        elif isinstance(said, RedisDown):
            self.dropped["down"] += 1
        elif isinstance(said, hiredis.ReplyError):
            self.dropped["refused"] += 1  # out of memory, read-only, the disk is full, or the slot has moved
        else:
            self.written += 1

"""Stale-while-revalidate: values that were answered though past their age are computed anew in the background.

At most one renewal of an entity at a time in this worker; with a lease in Redis, in all workers. A renewal is a
flight like any other: misses of the same entity share it. What live refuses is not renewed: requests come first.
"""

import asyncio
from collections import Counter
from functools import partial

from online.api.answering.flights import Flight, Flights, LiveResult
from online.api.answering.flying import Flying
from online.api.answering.miss import flight_subject
from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import command
from online.api.routes.view import ModelView, VersionView
from schemas.keys import lease_prefix, live_key

_MOST = 256
# Until what was written back can be read, and before what failed is tried again.
_PAUSE_S = 0.1
_FAILED_PAUSE_S = 1.0


class Renewals:
    """`lease_ms`: how long one worker renews an entity for all; 0: each for itself."""

    def __init__(
        self, flights: Flights, flying: Flying, link: RedisLink, lease_ms: int, deadline_s: float
    ) -> None:
        self._flights, self._flying, self._link = flights, flying, link
        self._lease_ms, self._deadline_s = lease_ms, deadline_s
        self._tasks: dict[tuple[str, bytes], asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self.counts: Counter[str] = Counter()

    def start(self, view: ModelView, version: VersionView, entity: bytes, invalidated_ms: int) -> None:
        """Never waits and never fails."""
        key = (version.digest, entity)
        if key in self._tasks:
            return
        if len(self._tasks) >= _MOST:
            self.counts["dropped"] += 1
            return
        work = self._renew(view, version, entity, invalidated_ms)
        self._tasks[key] = task = self._loop.create_task(work, name="renewal")
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _renew(self, view: ModelView, version: VersionView, entity: bytes, invalidated_ms: int) -> None:
        is_renewed = await self._has_lease(version, entity) and await self._fly(
            view, version, entity, invalidated_ms
        )
        await asyncio.sleep(_PAUSE_S if is_renewed else _FAILED_PAUSE_S)

    async def _fly(self, view: ModelView, version: VersionView, entity: bytes, invalidated_ms: int) -> bool:
        deadline_s = self._loop.time() + self._deadline_s
        if self._flying.refusal(version, deadline_s, 1) is not None:
            self.counts["refused"] += 1
            return False
        key = (version.digest, flight_subject(entity, invalidated_ms))
        flight = Flight(key, entity, entity, live_key(version.model, version.name, entity), None, None)
        wait = self._flights.board([flight], partial(self._flying.fly, view, version, deadline_s))
        try:
            await asyncio.wait([wait.done], timeout=self._deadline_s)
        finally:
            self._flights.leave(wait.wait)
        is_renewed = isinstance(wait.flights[0].result, LiveResult)
        self.counts["done" if is_renewed else "failed"] += 1
        return is_renewed

    async def _has_lease(self, version: VersionView, entity: bytes) -> bool:
        """Not given back: until it ends, what its holder wrote is there for all."""
        if not self._lease_ms:
            return True
        key = lease_prefix(version.model, version.name) + entity
        words = (b"SET", key, b"1", b"NX", b"PX", b"%d" % self._lease_ms)
        try:
            (reply,) = await self._link.ask([(key, command(*words))])
        except (RedisDown, RedisSlow):
            return False
        if reply not in (b"OK", "OK"):
            self.counts["leased_elsewhere"] += 1
            return False
        return True

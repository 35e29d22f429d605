"""Renewals of two workers on one Redis: by a lease, one of them renews for both."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from online.api.answering.flights import Flight, Flights, LiveResult
from online.api.answering.flying import Flying
from online.api.answering.renewals import Renewals
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import parse_address
from tests.support.small_view import small_view

RESULT = LiveResult(np.ones(2, np.float32), 1, {}, 0, 0, 0, 0, 1)


class Tier:
    """Counts the entities it is asked for, and answers at once."""

    def __init__(self) -> None:
        self.flown: list[bytes] = []

    def refusal(self, *_: object) -> None:
        return None

    async def fly(self, view: object, version: object, deadline_s: float, flights: Sequence[Flight]) -> None:
        for flight in flights:
            self.flown.append(flight.entity)
            flight.land(RESULT)


async def _opened(link: RedisLink) -> None:
    for _ in range(500):
        if link.is_open:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within 5 s")


async def _renew(url: str, lease_ms: int, entities: Sequence[bytes]) -> list[bytes]:
    """What two workers fly, each asked for every entity twice."""
    view, tier = small_view(), Tier()
    async with RedisLink(parse_address(url), 1.0, 1.0) as link:
        await _opened(link)
        workers = [Renewals(Flights(), cast(Flying, cast(Any, tier)), link, lease_ms, 1.0) for _ in range(2)]
        for entity in entities * 2:
            for worker in workers:
                worker.start(view, view.stable, entity, -1)
        await asyncio.sleep(0.05)
        for worker in workers:
            await worker.close()
    return sorted(tier.flown)


async def test_with_a_lease_one_worker_renews_for_all(redis_url: str) -> None:
    assert await _renew(redis_url, 60_000, [b"lease-1", b"lease-2"]) == [b"lease-1", b"lease-2"]
    assert await _renew(redis_url, 60_000, [b"lease-1"]) == [], "it is not given back before its time"


async def test_without_one_each_worker_renews_for_itself_once(redis_url: str) -> None:
    assert await _renew(redis_url, 0, [b"each"]) == [b"each", b"each"]

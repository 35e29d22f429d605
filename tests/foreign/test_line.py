"""How many requests a server is given at a time, and those who wait for their turn."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from online.errors import DeadlineExceeded, LiveUnavailable, Overloaded
from tests.foreign.asking import ask, tier_on
from tests.foreign.servers import OipServer, some_rows


async def test_a_server_is_given_no_more_than_its_bound(servers: tuple[OipServer, OipServer]) -> None:
    async with tier_on(*servers, concurrency=2) as tier:
        for server in servers:
            server.behave(delay_s=0.1)
        results = await asyncio.gather(*(ask(tier, some_rows(1 + count % 3)) for count in range(12)))
        assert [len(result.outputs) for result in results] == [1 + count % 3 for count in range(12)]
        for server in servers:
            assert (server.seen["most_at_once"], server.seen["infers"]) == (2, 6)


async def test_who_waits_in_line_keeps_the_deadline_and_loses_no_slot(
    servers: tuple[OipServer, OipServer],
) -> None:
    async with tier_on(servers[0], concurrency=1) as tier:
        servers[0].behave(delay_s=0.5)
        first = asyncio.create_task(ask(tier))
        await asyncio.to_thread(servers[0].wait_seen, lambda seen: seen["infers"] == 1)
        late, leaving, last = (asyncio.create_task(ask(tier, within_s=wait)) for wait in (0.1, 5, 5))
        await asyncio.wait([late])
        leaving.cancel()
        outcomes: list[Any] = await asyncio.gather(first, late, leaving, last, return_exceptions=True)
        assert isinstance(outcomes[1], DeadlineExceeded)
        assert isinstance(outcomes[2], asyncio.CancelledError)
        assert [len(outcomes[place].outputs) for place in (0, 3)] == [3, 3]
        assert servers[0].seen["infers"] == 2


async def test_the_line_has_an_end(servers: tuple[OipServer, OipServer]) -> None:
    async with tier_on(servers[0], concurrency=1) as tier:
        servers[0].behave(delay_s=1.0)
        async with AsyncExitStack() as stack:
            tasks = [asyncio.create_task(ask(tier, within_s=0.8)) for _ in range(20)]
            for task in tasks:
                stack.callback(task.cancel)
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(outcome, Overloaded) for outcome in outcomes) == 3  # one is sent, 16 wait
        assert sum(isinstance(outcome, DeadlineExceeded) for outcome in outcomes) == 17


async def test_a_line_whose_servers_are_lost_is_told_so(servers: tuple[OipServer, OipServer]) -> None:
    async with tier_on(servers[0], concurrency=1) as tier:
        servers[0].behave(delay_s=3.0)
        first = asyncio.create_task(ask(tier, within_s=10))
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(ask(tier, within_s=10))
        await asyncio.sleep(0.1)
        servers[0].behave(delay_s=3.0, ready=False)
        with pytest.raises(LiveUnavailable):
            await waiting
        assert not first.done()
        first.cancel()

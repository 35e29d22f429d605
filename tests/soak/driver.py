"""Drives a soak: clients under faults, two switches of what is live, then calm, and all is hits again."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.soak.asking import Asked, Draw, Item
from tests.soak.clients import Budget, Client
from tests.soak.known import HOT, NAMES, place_of
from tests.soak.proxy import CALM
from tests.soak.stack import Stack
from tests.soak.tally import Tally

_TAKEN_S = 30.0
_PAUSE_S = 0.02
# Of the live tier: usually quick, now and then over a short deadline; rarely it loses its connections.
_LIVE_DELAYS_S, _LIVE_ODDS = (0.0, 0.005, 0.03, 0.25), (50, 30, 18, 2)
_LIVE_CUT = 0.002
_ALL_HITS_S = 30.0
_ROWS = 100
_ASKING_AGAIN = 8  # connections, so that both workers are among them


@dataclass(frozen=True)
class Load:
    """`rate`: turns a second if answers took no time; `leaving`: share of turns after which a client goes away."""

    requests: int
    clients: int = 40
    rate: float = 1000.0
    leaving: float = 0.2


async def drive(stack: Stack, load: Load, seed: int) -> Tally:
    """All answers, checked. Returns when the last client has gone."""
    tally, budget = Tally(), Budget(load.requests)
    think_s = load.clients / load.rate
    clients = [
        Client(stack.api.port, f"{seed}-{number}", stack.eras, tally, think_s, load.leaving)
        for number in range(load.clients)
    ]
    live = asyncio.create_task(_disturb_live_tier(stack, Random(f"{seed} live")))
    try:
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.run(budget))
            group.create_task(_switch(stack, budget, load.requests))
    finally:
        live.cancel()
        await asyncio.wait([live])
        for version in stack.tier.values():
            version.delay_s = 0.0
    return tally


async def _switch(stack: Stack, budget: Budget, requests: int) -> None:
    """A new generation after a third, a new version after two."""
    for place in range(1, len(stack.eras)):
        era, left = stack.eras[place], requests - requests * place // len(stack.eras)
        await _until(lambda left=left: budget.left <= left)
        await asyncio.to_thread(stack.publish, era)
        async with asyncio.timeout(_TAKEN_S):
            await _until(lambda era=era: stack.have_all_taken(era))
        stack.eras[place - 1].end()


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - it happens in other processes
        await asyncio.sleep(_PAUSE_S)


async def _disturb_live_tier(stack: Stack, random: Random) -> None:
    versions = list(stack.tier.values())
    while True:
        for version in versions:
            version.delay_s = random.choices(_LIVE_DELAYS_S, _LIVE_ODDS)[0]
            if random.random() < _LIVE_CUT:
                stack.node.cut(version)
        await asyncio.sleep(_PAUSE_S)


async def all_hits_again(stack: Stack, seed: int) -> Tally:
    """Ends the faults, and asks both workers for every precomputed entity until each answer is precomputed.

    Returns:
        Of the last time round, in which all were.

    Raises:
        AssertionError: they do not become so.
    """
    stack.proxy.weather = CALM
    until_s = time.monotonic() + _ALL_HITS_S
    while True:
        tally = Tally()
        clients = [
            Client(stack.api.port, f"{seed}-after-{number}", stack.eras, tally) for number in range(_ASKING_AGAIN)
        ]
        await asyncio.gather(*[client.ask_in_turn(_hot_batches) for client in clients])
        if tally.results == tally.sources["precomputed"] == HOT * _ASKING_AGAIN:
            return tally
        assert time.monotonic() < until_s, f"after the faults not all are hits: {tally}"
        await asyncio.sleep(_PAUSE_S)


def _hot_batches(draw: Draw) -> list[Asked]:
    items = [Item(name, place_of(number)) for number, name in enumerate(NAMES[:HOT])]
    return [draw.batch_of(items[at : at + _ROWS], is_whimsical=False) for at in range(0, HOT, _ROWS)]

"""Waiting for a condition in the event loop, such as that a link to Redis stands."""

import asyncio
from collections.abc import Callable

from online.api.lookup.link import RedisLink


async def until(condition: Callable[[], object]) -> None:
    """Returns once it holds; fails after eight seconds."""
    for _ in range(800):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within 8 s")


async def until_open(link: RedisLink) -> None:
    await until(lambda: link.is_open)

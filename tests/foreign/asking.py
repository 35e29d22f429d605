"""A tier on servers that are ready, and requests of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from online.api.live.foreign.naming import ForeignModel
from online.api.live.foreign.tier import ForeignTier
from online.wire_client.asking import Rows
from schemas import wire
from tests.foreign.servers import DIGEST, OipServer, routed, some_rows

TAG = wire.version_tag(DIGEST)


@asynccontextmanager
async def tier_on(
    *servers: OipServer, named: ForeignModel | None = None, concurrency: int = 8, version: str = "1"
) -> AsyncIterator[ForeignTier]:
    """Ready on all of them."""
    views = {"delay": routed(version)}
    models = {"delay": named} if named else {}
    async with ForeignTier([server.url for server in servers], models, concurrency, lambda: views) as tier:
        await until(tier, lambda: tier.warm_replicas(DIGEST) == len(servers))
        yield tier


async def until(tier: ForeignTier, condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            tier.changed.clear()
            await tier.changed.wait()


async def ask(tier: ForeignTier, tensors: list[wire.Tensor] | None = None, within_s: float = 5.0) -> wire.Result:
    deadline_s = asyncio.get_running_loop().time() + within_s
    return await tier.run(DIGEST, Rows(TAG, tensors or some_rows(), deadline_s))

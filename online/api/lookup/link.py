"""The link to Redis, be it one server or a cluster: what it is shows when connecting, by its reply to HELLO."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

from online.api.lookup.cluster import Cluster
from online.api.lookup.connection import Sink
from online.api.lookup.resp import Command, RedisAddress
from online.api.lookup.server import LinkCounts, ServerLink
from online.api.lookup.topology import Node

AskFor = Callable[[Sequence[Command]], "asyncio.Future[list[object]]"]
SendFor = Callable[[Sequence[Command], Sink], None]


class RedisLink:
    """Use as `async with`; every future it gave is resolved when the block ends.

    Attributes:
        ask: sends commands, one at least; `ServerLink.ask` or `Cluster.ask` itself, so that a look-up on one
            server costs nothing for clusters. It gives the replies in order. One server fails as a whole, by
            RedisSlow or RedisDown, at once where it cannot be sent (BreakerOpen); a cluster puts such an error in
            the place of each command that has no reply. Error replies are `hiredis.ReplyError` in both.
        send: the same for a sink, which is told as soon as the replies are read, not in the next turn of the loop.
        counts: totals over all nodes.
    """

    ask: AskFor
    send: SendFor

    def __init__(self, address: RedisAddress, budget_s: float, connect_timeout_s: float) -> None:
        self.counts = LinkCounts()

        def node_link(node: Node, on_lost: Callable[[], None]) -> ServerLink:
            where = address.of_node(node.host, node.port)
            return ServerLink(where, budget_s, connect_timeout_s, self.counts, on_lost=on_lost)

        self._server = ServerLink(address, budget_s, connect_timeout_s, self.counts, self._on_connected)
        self._cluster = Cluster(self._server, node_link)
        self._is_cluster = False
        self.ask, self.send = self._server.ask, self._server.send

    async def __aenter__(self) -> Self:
        await self._cluster.__aenter__()
        self._server.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._server.close()
        await self._cluster.__aexit__(*exc_info)

    @property
    def nodes(self) -> list[ServerLink]:
        """The masters of the cluster, or the one server."""
        return self._cluster.nodes if self._is_cluster else [self._server]

    @property
    def is_open(self) -> bool:
        """Whether an ask would be sent now, whatever its keys."""
        return self._cluster.is_open if self._is_cluster else self._server.is_open

    def _on_connected(self, is_cluster: bool) -> None:
        self._is_cluster = is_cluster
        found = self._cluster if is_cluster else self._server
        self.ask, self.send = found.ask, found.send
        self._cluster.found(is_cluster)

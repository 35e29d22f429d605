"""The nodes of a Redis Cluster: each command goes to the master of its key, each node has a breaker of its own.

Results are per command: a node that is down, slow or has given a slot away costs a look-up of its own keys, and
the other nodes' replies stand. A redirection is not followed, which would take a second budget: it is a miss, and
a moved slot's only once, since it corrects the map.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

import hiredis
from redis.crc import key_slot

from online.api.lookup.connection import Ask, BreakerOpen, RedisDown, RedisSlow, Sink
from online.api.lookup.resp import Command
from online.api.lookup.server import ServerLink
from online.api.lookup.topology import ASK_SLOTS, SLOTS, Node, Range, fill, nodes_of, read_moved, read_slots

log = logging.getLogger(__name__)

_ASK_SLOTS = [(b"", ASK_SLOTS)]
# How long a map is believed while every node answers, while one does not, and at the least.
_CALM_S = 60.0
_TROUBLED_S = 1.0
_LEAST_S = 0.1

MakeLink = Callable[[Node, Callable[[], None]], ServerLink]


class Cluster:
    """Use as `async with`; idle until `found` says that there is a cluster.

    Args:
        seed: the link to the configured address; asked for the map, and not for keys.
        make_link: makes the link to a node, given what to call when its connection is lost.
    """

    def __init__(self, seed: ServerLink, make_link: MakeLink) -> None:
        self._seed, self._make_link = seed, make_link
        self._links: dict[Node, ServerLink] = {}
        self._owners: list[ServerLink | None] = [None] * SLOTS
        self._is_cluster = False
        self._stale = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._follow(), name="redis cluster")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._take([])

    @property
    def nodes(self) -> list[ServerLink]:
        return list(self._links.values())

    @property
    def is_open(self) -> bool:
        """Whether every node would be sent to now."""
        return bool(self._links) and all(link.is_open for link in self._links.values())

    def found(self, is_cluster: bool) -> None:
        """What the configured address has turned out to be."""
        self._is_cluster = is_cluster
        self._stale.set()

    def ask(self, commands: Sequence[Command]) -> "asyncio.Future[list[object]]":
        """Sends commands, one at least, each with the next write to its node.

        Returns:
            Their replies in order; in the place of one that has none, the reason: RedisSlow, RedisDown or
            `hiredis.ReplyError`.
        """
        future = self._loop.create_future()
        self.send(commands, future)
        return future

    def send(self, commands: Sequence[Command], sink: Sink) -> None:
        """As `ask`; the sink is told at once when the last reply is read."""
        joint = _Joint(sink, len(commands))
        shares: dict[ServerLink | None, _Share] = {}
        owners = self._owners
        for place, (key, packed) in enumerate(commands):
            link = owners[key_slot(key)] if key else self._any()
            share = shares.get(link)
            if share is None:
                shares[link] = share = _Share(joint, self._on_error, link)
            share.places.append(place)
            share.packed.append(packed)
        joint.open = len(shares)
        for link, share in shares.items():
            if link is not None and link.is_open:
                link.put(share.packed, Ask(len(share.places), share))
            else:
                share.set_exception(BreakerOpen("no connection to this key's node, or its breaker is open"))

    def _any(self) -> ServerLink | None:
        return next((link for link in (self._seed, *self._links.values()) if link.is_open), None)

    def _on_error(self, link: ServerLink | None, error: hiredis.ReplyError) -> None:
        if link is None:
            return
        moved = read_moved(error, _place(link))
        if moved is not None:
            slot, node = moved
            self._owners[slot] = self._links.get(node)
            self._stale.set()
        elif str(error).startswith("CLUSTERDOWN"):
            self._stale.set()

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s()):
                    await self._stale.wait()
            self._stale.clear()
            await (self._refresh() if self._is_cluster else self._take([]))
            await asyncio.sleep(_LEAST_S)

    def _patience_s(self) -> float | None:
        if not self._is_cluster:
            return None
        return _CALM_S if self.is_open else _TROUBLED_S

    async def _refresh(self) -> None:
        """Asks one node after the other for the map, in any order: none's view is taken for good."""
        links = [link for link in self._links.values() if link.is_open]
        random.shuffle(links)
        for link in (*links, self._seed):
            try:
                (reply,) = await link.ask(_ASK_SLOTS)
                ranges = read_slots(reply, _place(link))
            except (RedisDown, RedisSlow, ValueError, TypeError) as error:
                log.debug("a node does not tell its map", extra={"server": link.address.name, "error": str(error)})
                continue
            await self._take(ranges)
            return

    async def _take(self, ranges: list[Range]) -> None:
        nodes = nodes_of(ranges)
        for node in nodes - self._links.keys():
            self._links[node] = link = self._make_link(node, self._stale.set)
            link.start()
        owners: list[ServerLink | None] = [None] * SLOTS
        fill(owners, ranges, self._links)
        self._owners = owners
        for node in self._links.keys() - nodes:
            await self._links.pop(node).close()


class _Joint:
    """An ask that several nodes answer: the replies so far, and how many of its shares are open."""

    __slots__ = ("_sink", "open", "replies")

    def __init__(self, sink: Sink, expected: int) -> None:
        self._sink = sink
        self.replies: list[object] = [None] * expected
        self.open = 0

    def end_share(self) -> None:
        self.open -= 1
        if self.open == 0 and not self._sink.done():
            self._sink.set_result(self.replies)


class _Share:
    """What one node is asked of an ask; stands where a future stands in `Ask`."""

    __slots__ = ("_is_done", "_joint", "_link", "_on_error", "packed", "places")

    def __init__(
        self,
        joint: _Joint,
        on_error: Callable[[ServerLink | None, hiredis.ReplyError], None],
        link: ServerLink | None,
    ) -> None:
        self._joint, self._on_error, self._link = joint, on_error, link
        self._is_done = False
        self.places: list[int] = []
        self.packed: list[bytes] = []

    def done(self) -> bool:
        return self._is_done

    def set_result(self, replies: list[object]) -> None:
        self._is_done = True
        found = self._joint.replies
        for place, reply in zip(self.places, replies, strict=True):
            found[place] = reply
            if isinstance(reply, hiredis.ReplyError):
                self._on_error(self._link, reply)
        self._joint.end_share()

    def set_exception(self, error: Exception) -> None:
        self._is_done = True
        for place in self.places:
            self._joint.replies[place] = error
        self._joint.end_share()


def _place(link: ServerLink) -> Node:
    return Node(link.address.host, link.address.port)

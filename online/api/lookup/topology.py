"""Which node of a cluster owns which slots, as CLUSTER SLOTS tells it, and what redirections say. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import hiredis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS

from online.api.lookup.resp import command

SLOTS = REDIS_CLUSTER_HASH_SLOTS
ASK_SLOTS = command(b"CLUSTER", b"SLOTS")
T = TypeVar("T")


class Node(NamedTuple):
    """Where a master listens."""

    host: str
    port: int


class Range(NamedTuple):
    """Slots from `first` to `last`, both included."""

    first: int
    last: int
    master: Node


def read_slots(reply: object, asked: Node) -> list[Range]:
    """The ranges of a reply to CLUSTER SLOTS. A node without a name is found where the asked one was.

    Raises:
        ValueError: it is no such reply, or names no range: the node does not know its cluster yet.
    """
    if isinstance(reply, hiredis.ReplyError) or not isinstance(reply, list) or not reply:
        raise ValueError(f"CLUSTER SLOTS: {str(reply)[:200]}")
    found = []
    for entry in reply:
        first, last, (host, port, *_), *_ = entry
        if not 0 <= first <= last < SLOTS:
            raise ValueError(f"CLUSTER SLOTS: slots {first} to {last}")
        found.append(Range(first, last, Node(_host(host, asked), int(port))))
    return found


def nodes_of(ranges: Iterable[Range]) -> set[Node]:
    return {one.master for one in ranges}


def fill(owners: list[T], ranges: Iterable[Range], by_node: Mapping[Node, T]) -> None:
    """Sets the owner of each slot that a range names."""
    for first, last, master in ranges:
        owners[first : last + 1] = [by_node[master]] * (last + 1 - first)


def read_moved(error: hiredis.ReplyError, asked: Node) -> tuple[int, Node] | None:
    """The slot that has moved and where it is now, from `MOVED 3999 127.0.0.1:6381`; None for another error."""
    words = str(error).split()
    if len(words) != 3 or words[0] != "MOVED":
        return None
    host, _, port = words[2].rpartition(":")
    try:
        slot, node = int(words[1]), Node(_host(host, asked), int(port))
    except ValueError:
        return None
    return (slot, node) if 0 <= slot < SLOTS else None


def _host(host: object, asked: Node) -> str:
    """A node that does not know its own address, or is to be found by the asker's, tells none, or `?`."""
    text = host.decode() if isinstance(host, bytes) else str(host or "")
    return text if text not in ("", "?") else asked.host

"""Whether Redis has room, asked before anything is written, and by the gate."""

from typing import NamedTuple

from redis import Redis

from batch_scoring.runs import Refused
from batch_scoring.settings import BatchSettings
from batch_scoring.store import nodes

_POLICIES_THAT_KEEP = ("noeviction", "volatile-")


class Room(NamedTuple):
    """Bytes, of all nodes. `most` is 0 where Redis has no limit; `left` is what may be used beside the reserve."""

    used: int
    most: int
    left: int


def room(redis: Redis, settings: BatchSettings) -> Room:
    """On a cluster, whose nodes get equal shares, the fullest one says what is left. Raises Refused where Redis
    could evict a generation.
    """
    found = [_room(node, settings) for node in nodes(redis)]
    limited = [one.left for one in found if one.most]
    most = sum(one.most for one in found) if len(limited) == len(found) else 0
    return Room(sum(one.used for one in found), most, min(limited, default=0) * len(found))


def _room(redis: Redis, settings: BatchSettings) -> Room:
    memory = redis.info("memory")
    policy, most, used = str(memory["maxmemory_policy"]), int(memory["maxmemory"]), int(memory["used_memory"])
    if most and not policy.startswith(_POLICIES_THAT_KEEP):
        raise Refused(
            f"maxmemory-policy is {policy}: a generation has no TTL, and would be evicted; set volatile-lfu"
        )
    return Room(used, most, int(most * (1 - settings.memory_reserve)) - used)


def check_memory(redis: Redis, needed: int, what: str, settings: BatchSettings) -> dict[str, object]:
    """The numbers, for the report.

    Args:
        needed: bytes that `what` will take.

    Raises:
        Refused: it does not fit beside what is there and the reserve, or Redis could evict it.
    """
    found = room(redis, settings)
    if found.most and needed > found.left:
        raise Refused(
            f"{what} needs about {needed:,} bytes, and Redis has {max(0, found.left):,} left of {found.most:,}"
            f" with {settings.memory_reserve:.0%} reserved for written-back results: raise maxmemory, lower"
            " BATCH_HOT_FRACTION or retire generations"
        )
    return {"needed_bytes": needed, "used_bytes": found.used, "maxmemory_bytes": found.most}

"""Whether Redis has room, asked before anything is written, and by the gate.

What is needed, beside what is there and the reserve for written-back results:

- a refresh, a previous version rescored or a delta: room for itself. Its version has a generation loaded already,
  and after its switch the one before the previous goes, so that the next night needs no more than this one.
- a version that has none yet, on the first night or in a release: room for two generations of every arm. The
  second of each is the next night's, and a night that finds no room leaves the service with stale answers.

Written-back results count as room, since Redis evicts them before it refuses a write; how much they take is told
from their number, and from below.
"""

from typing import NamedTuple

from redis import Redis

from batch_scoring.runs import Refused, Role, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import nodes
from schemas.routes import RoutesDocument

# Of each arm: the one in service and the one that is to follow it.
GENERATIONS_AN_ARM = 2
_POLICIES_THAT_KEEP = ("noeviction", "volatile-")
# The least that a written-back result takes (measured: 85 bytes in Valkey 9.1, 163 in Redis 7.0).
_EVICTABLE_BYTES = 80


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


def _room(node: Redis, settings: BatchSettings) -> Room:
    memory = node.info("memory")
    policy, most, used = str(memory["maxmemory_policy"]), int(memory["maxmemory"]), int(memory["used_memory"])
    if most and not policy.startswith(_POLICIES_THAT_KEEP):
        raise Refused(
            f"maxmemory-policy is {policy}: a generation has no TTL, and would be evicted; set volatile-lfu"
        )
    evictable = _evictable(node) if policy.startswith("volatile-") else 0
    return Room(used, most, int(most * (1 - settings.memory_reserve)) - max(0, used - evictable))


def _evictable(node: Redis) -> int:
    expiring = sum(int(database["expires"]) for database in node.info("keyspace").values())
    return expiring * _EVICTABLE_BYTES


def check_memory(
    redis: Redis, needed: int, what: str, settings: BatchSettings, then: int = 0
) -> dict[str, object]:
    """The numbers, for the report.

    Args:
        needed: bytes that `what` will take.
        then: bytes that there must be room for beside it, for the next night.

    Raises:
        Refused: it does not fit beside what is there and the reserve, or Redis could evict it.
    """
    found = room(redis, settings)
    if found.most and needed + then > found.left:
        more = f" and the next night {then:,} more" if then else ""
        raise Refused(
            f"{what} needs about {needed:,} bytes{more}, and Redis has {max(0, found.left):,} left of"
            f" {found.most:,} with {settings.memory_reserve:.0%} reserved for written-back results: raise"
            " maxmemory, lower BATCH_HOT_FRACTION or retire generations"
        )
    return {"needed_bytes": needed, "used_bytes": found.used, "maxmemory_bytes": found.most}


def next_night_rows(run: Run, rows: int, document: RoutesDocument | None) -> int:
    """Rows that there must be room for beside the run's own `rows`, as the module says."""
    loaded = {name: one.generations for name, one in document.versions.items()} if document else {}
    if run.role is Role.DELTA or loaded.get(run.version):
        return 0
    others = (document.routed_versions if document else frozenset()) - {run.version}
    arms = [loaded[name] for name in others if loaded[name]]
    missing = sum((GENERATIONS_AN_ARM - len(one)) * one[0].rows for one in arms if len(one) < GENERATIONS_AN_ARM)
    return (GENERATIONS_AN_ARM - 1) * rows + missing

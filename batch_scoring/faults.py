"""What Redis refuses, in words and with the numbers: for whom the night calls at three."""

from contextlib import suppress

from redis import Redis
from redis.exceptions import BusyLoadingError, OutOfMemoryError, ReadOnlyError, RedisError

# redis-py takes the code off these.
_CODES = {OutOfMemoryError: "OOM", BusyLoadingError: "LOADING", ReadOnlyError: "READONLY"}


class NotTaken(Exception):
    """Redis does not take, or no longer has, what a step gave it.

    Unlike what is refused, the same call may succeed once the cause is gone, and goes on where this one stopped: a
    retry is of use.
    """


def not_taken(said: str, node: Redis) -> NotTaken:
    """Args: `said`, the text of the error, which begins with its code."""
    return NotTaken(f"{_meaning(said, node)} (Redis says: {said})")


def from_error(error: RedisError, node: Redis) -> NotTaken:
    """As `not_taken`, of what redis-py raised."""
    code = _CODES.get(type(error))
    return not_taken(f"{code} {error}" if code else str(error), node)


def _meaning(said: str, node: Redis) -> str:
    again = "then run the step again: it goes on with what is left"
    match said.split(" ", 1)[0]:
        case "OOM":
            return (
                f"Redis is out of memory{_memory(node)}: raise maxmemory, lower BATCH_HOT_FRACTION or retire"
                f" generations, {again}"
            )
        case "MISCONF":
            return f"Redis cannot save to its disk and takes no writes{_disk(node)}: make room there, {again}"
        case "READONLY":
            return f"this Redis is a replica, as after a failover: let BATCH_REDIS_URL name the master, {again}"
        case "LOADING":
            return f"Redis is still loading its data: wait until it has, {again}"
        case "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN":
            return f"slots of the cluster are moving or have no master: wait until they have, {again}"
        case "EXECABORT":
            return f"Redis took no part of a bucket: see its log, {again}"
        case "NOPERM" | "NOAUTH" | "WRONGPASS":
            return "this user may not: infra/docs/redis.md has the rules that the publisher needs"
        case _:
            return "Redis did not do what it was asked"


def _memory(node: Redis) -> str:
    with suppress(RedisError):
        found = node.info("memory")
        return f" ({found['used_memory']:,} of {found['maxmemory']:,} bytes used)"
    return ""


def _disk(node: Redis) -> str:
    with suppress(RedisError):
        found = node.info("persistence")
        return f" (RDB {found['rdb_last_bgsave_status']}, AOF {found['aof_last_write_status']})"
    return ""

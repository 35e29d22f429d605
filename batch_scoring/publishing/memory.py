"""Whether Redis has room for a generation, asked before anything is written."""

import pyarrow.compute as pc
import pyarrow.dataset as ds
from redis import Redis

from batch_scoring.runs import Refused
from batch_scoring.settings import BatchSettings

# A field of a listpack: entity and value, their two headers and the bucket's share; measured 19 to 23 bytes
# an entity beside 12-byte values.
_FIELD_OVERHEAD_BYTES = 12
_POLICIES_THAT_KEEP = ("noeviction", "volatile-")


def check_memory(redis: Redis, scores: ds.Dataset, settings: BatchSettings) -> dict[str, object]:
    """The numbers, for the report.

    Raises:
        Refused: the generation does not fit beside what is there and the reserve, or Redis could evict it.
    """
    memory = redis.info("memory")
    policy, most, used = str(memory["maxmemory_policy"]), int(memory["maxmemory"]), int(memory["used_memory"])
    if most and not policy.startswith(_POLICIES_THAT_KEEP):
        raise Refused(
            f"maxmemory-policy is {policy}: a generation has no TTL, and would be evicted; set volatile-lfu"
        )
    needed = _bytes_needed(scores)
    numbers: dict[str, object] = {"needed_bytes": needed, "used_bytes": used, "maxmemory_bytes": most}
    room = most * (1 - settings.memory_reserve) - used
    if most and needed > room:
        raise Refused(
            f"the generation needs about {needed:,} bytes, and Redis has {max(0, int(room)):,} left of {most:,}"
            f" with {settings.memory_reserve:.0%} reserved for written-back results: raise maxmemory, lower"
            " BATCH_HOT_FRACTION or retire generations"
        )
    return numbers


def _bytes_needed(scores: ds.Dataset) -> int:
    total = 0
    for batch in scores.to_batches(columns=["entity", "packed"]) if scores.schema.names else ():
        total += pc.sum(pc.binary_length(batch["entity"])).as_py() or 0
        total += pc.sum(pc.binary_length(batch["packed"])).as_py() or 0
        total += _FIELD_OVERHEAD_BYTES * batch.num_rows
    return total

"""The digest of each bucket as it was verified, beside the run: for a last look before it is made live."""

import random

import numpy as np
import numpy.typing as npt
from redis import Redis

from batch_scoring.checksum import bucket_digest
from batch_scoring.files import file_system
from batch_scoring.runs import Refused, Run
from batch_scoring.store import in_turns
from schemas.keys import bucket_key

# 25,000 fields, of which the look takes some 50 ms.
_LOOKED_AT = 256
_FILE = "bucket-digests.bin"
Digests = npt.NDArray[np.uint64]


def save(run: Run, digests: Digests) -> None:
    """Args: `digests`, (buckets,), 0 for one without fields."""
    filesystem, path = file_system(run.place(_FILE))
    staged = f"{path}.tmp"
    filesystem.pipe_file(staged, digests.astype("<u8").tobytes())
    filesystem.mv(staged, path)


def need_same(redis: Redis, run: Run) -> None:
    """Raises Refused where a bucket of a random sample is not what was verified, or nothing says what was."""
    wanted = _load(run)
    # By chance of the system's, so that nobody who changes a bucket knows which are looked at.
    looked_at = random.SystemRandom().sample(range(len(wanted)), min(_LOOKED_AT, len(wanted)))

    def ask(buckets: list[int]) -> list[object]:
        pipeline = redis.pipeline(transaction=False)
        for bucket in buckets:
            pipeline.hgetall(bucket_key(run.model, run.version, run.generation, bucket))
        return list(pipeline.execute(raise_on_error=False))

    found = in_turns(looked_at, ask)
    changed = [bucket for bucket, reply in found if _digest(bucket, reply) != wanted[bucket]]
    if changed:
        raise Refused(
            f"{len(changed)} of {len(looked_at)} buckets of {run.generation} that were looked at, such as"
            f" {min(changed)}, are not what was verified: run verify, and what it then asks for"
        )


def _digest(bucket: int, found: object) -> int | None:
    if not isinstance(found, dict):  # an error: it is no hash any more
        return None
    names = sorted(found)
    return bucket_digest(bucket, names, [found[name] for name in names]) if names else 0


def _load(run: Run) -> Digests:
    filesystem, path = file_system(run.place(_FILE))
    buckets = run.count("score", "buckets")
    try:
        found = np.frombuffer(filesystem.cat_file(path), "<u8")
    except (FileNotFoundError, ValueError):
        found = np.empty(0, np.uint64)
    if len(found) != buckets:
        raise Refused(f"nothing says what {run.generation} was verified to hold: run verify again")
    return found

"""Verifies a published generation: every bucket against the score files, and a sample as a client reads it."""

import random

import numpy as np
from redis import Redis
from redis.exceptions import RedisError

from batch_scoring.checksum import as_text
from batch_scoring.fail_points import reach
from batch_scoring.faults import from_error
from batch_scoring.publishing import checkpoints, digests
from batch_scoring.publishing.compare import Found, Sample, compare
from batch_scoring.publishing.generation import most_buckets, write_manifest
from batch_scoring.publishing.parity import parity
from batch_scoring.publishing.retire import DELETED
from batch_scoring.publishing.tokens import unless_newer
from batch_scoring.runs import Refused, Run, stage
from batch_scoring.score_files import DamagedScores
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, held, in_turns
from schemas.codec import CorruptValue, unpack
from schemas.keys import bucket_key, bucket_of, field_of

STEP = "verify"
# Buckets behind the last that are looked for: nothing should write there, and nobody reads there.
_BEYOND = 1000


def verify(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Marks the generation verified.

    Raises:
        Refused: Redis does not hold exactly what was scored, which is to be published anew; or the score files are
            damaged, and it is to be scored anew.
        NotTaken: Redis refused to answer.
    """
    run.need_report("publish")
    with connect(settings) as redis, unless_newer(redis, run):
        try:
            return _verify(redis, run, settings)
        except RedisError as error:
            raise from_error(error, redis) from error
        except Refused as refusal:
            # So that neither this generation is activated nor publishing it again is skipped.
            write_manifest(redis, run, "refused")
            checkpoints.forget_all(run)
            run.forget("publish")
            # A later run may have swept meanwhile: the manifest is yet to be deleted.
            run.forget(DELETED)
            if isinstance(refusal, DamagedScores):
                run.forget("score")
            raise


def _verify(redis: Redis, run: Run, settings: BatchSettings) -> dict[str, object]:
    rows, buckets = run.count("score", "rows"), run.count("score", "buckets")
    with stage(run, "verification") as facts:
        reach("verify.begun", settings.fail_point)
        wanted = random.Random(run.generation).sample(range(rows), min(rows, settings.verify_sample))
        found = compare(run, settings, buckets, np.array(sorted(wanted), np.int64))
        checksum = _check(run, found, rows)
        _none_beyond(redis, run, buckets if rows else 0)
        _read_back(redis, run, found.sample, buckets)
        digests.save(run, found.digests)
        reach("verify.compared", settings.fail_point)
        write_manifest(redis, run, "verified")
        facts |= {"rows": rows, "read_back": len(found.sample)}
    report = {"rows": rows, "buckets": buckets, "read_back": len(found.sample), "checksum": checksum}
    return {**report, "parity": parity(run, settings, found.sample)}


def _check(run: Run, found: Found, rows: int) -> str:
    """The checksum of files and Redis. Raises Refused where they are not the same."""
    scored = run.need_report("score")
    checksum = as_text(int(found.digests.sum(dtype=np.uint64)))
    if found.rows != rows or checksum != scored["checksum"]:
        raise DamagedScores(
            f"the score files of {run.generation} hold {found.rows:,} rows with checksum {checksum}, not the"
            f" {rows:,} with {scored['checksum']} that were written: they were changed, run score again"
        )
    if found.different:
        raise Refused(
            f"{found.different:,} of {len(found.digests):,} buckets of {run.generation} are not what was scored,"
            f" run publish again; {'; '.join(map(str, sorted(found.shown)))}"
        )
    return checksum


def _none_beyond(redis: Redis, run: Run, first: int) -> None:
    """Raises Refused where there is a bucket from `first` on, as of an earlier attempt that had more."""
    names = {
        bucket_key(run.model, run.version, run.generation, bucket): bucket
        for bucket in range(first, most_buckets(redis, run) + _BEYOND)
    }
    if held(redis, names):
        extra = [bucket for name, bucket in names.items() if redis.exists(name)]
        raise Refused(
            f"{len(extra):,} buckets of {run.generation} were never scored, such as {extra[:3]}: run publish again"
        )


def _read_back(redis: Redis, run: Run, sample: Sample, buckets: int) -> None:
    """Reads single entities as the endpoint does, fingerprint and ordinal included."""
    outputs = run.count("score", "outputs")

    def ask(some: list[tuple[bytes, bytes]]) -> list[object]:
        pipeline = redis.pipeline(transaction=False)
        for entity, _ in some:
            key = bucket_key(run.model, run.version, run.generation, bucket_of(entity, buckets))
            pipeline.hget(key, field_of(entity))
        return list(pipeline.execute())

    for (entity, packed), value in in_turns(sample, ask):
        if value != packed:
            raise Refused(f"{entity.decode()!r} reads back as {value!r}, not as it was scored; run publish again")
        try:
            unpack(packed, entity, run.ordinal, outputs)
        except CorruptValue as error:
            raise Refused(f"{entity.decode()!r} reads back as {error}") from None

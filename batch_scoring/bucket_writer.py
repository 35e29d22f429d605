"""Writes whole buckets to Redis: each replaced in one transaction, so that a task run twice changes nothing."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect

Field = tuple[int, bytes, bytes]  # bucket, field, value


def write_buckets(rows: Iterable[Field], prefix: str, settings: BatchSettings) -> int:
    """Writes rows that are sorted by bucket; every bucket met is replaced by its rows.

    Returns:
        Fields written.
    """
    written = 0
    with connect(settings) as redis:
        pipeline = redis.pipeline(transaction=True)
        waiting = 0
        for bucket, fields in groupby(rows, key=itemgetter(0)):
            mapping = {bytes(field): bytes(value) for _, field, value in fields}
            key = f"{prefix}{bucket}"
            pipeline.delete(key)
            pipeline.hset(key, mapping=mapping)
            waiting += len(mapping)
            written += len(mapping)
            # A write is bounded, so that one load neither fills a buffer nor blocks look-ups for long.
            if waiting >= settings.write_batch_entities:
                pipeline.execute()
                waiting = 0
        pipeline.execute()
    return written

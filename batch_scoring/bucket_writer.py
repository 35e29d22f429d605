"""Writes whole buckets to Redis: each replaced in one transaction, so that a task run twice changes nothing."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from redis import Redis

from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, node_of

Field = tuple[int, bytes, bytes]  # bucket, field, value


def write_buckets(rows: Iterable[Field], prefix: str, settings: BatchSettings) -> int:
    """Writes rows that are sorted by bucket; every bucket met is replaced by its rows.

    On a cluster each node gets its buckets directly; one that has given them away meanwhile is an error.

    Returns:
        Fields written.
    """
    written = waiting = 0
    with connect(settings) as redis:
        pipelines: dict[Redis, Any] = {}  # redis-py's pipelines are not typed
        for bucket, fields in groupby(rows, key=itemgetter(0)):
            mapping = {field: value for _, field, value in fields}
            key = f"{prefix}{bucket}"
            node = node_of(redis, key)
            if node not in pipelines:
                pipelines[node] = node.pipeline(transaction=False)
            pipeline = pipelines[node]
            # A transaction for each bucket, not for the whole write: look-ups get in between, and a task that is
            # killed between the two leaves no bucket deleted that another attempt had written.
            pipeline.execute_command("MULTI")
            pipeline.delete(key)
            pipeline.hset(key, mapping=mapping)
            pipeline.execute_command("EXEC")
            waiting += len(mapping)
            written += len(mapping)
            if waiting >= settings.write_batch_entities:
                _send(pipelines)
                waiting = 0
        _send(pipelines)
    return written


def _send(pipelines: Mapping[Redis, Any]) -> None:
    for pipeline in pipelines.values():
        pipeline.execute()

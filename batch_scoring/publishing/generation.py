"""A generation in Redis beside its report: its manifest, and whether all of its buckets are there."""

from collections.abc import Set
from typing import Any, Literal

import orjson
from redis import Redis

from batch_scoring.runs import Refused, Run
from batch_scoring.store import held, unlink
from schemas.codec import CODEC_VERSION
from schemas.keys import bucket_key, generation_manifest_key
from schemas.routes import RoutesDocument

State = Literal["publishing", "published", "verified", "refused"]
_WHOLE = ("published", "verified")


def write_manifest(redis: Redis, run: Run, state: State) -> None:
    """Says how far the generation is; being live is said by the routes document only."""
    report = {name: run.need_report("score")[name] for name in ("rows", "buckets", "checksum")}
    most = max(run.count("score", "buckets"), _read(redis, run).get("most_buckets", 0))
    more = {"codec": CODEC_VERSION, "ordinal": run.ordinal, "computed_at_ms": run.started_at_ms, "state": state}
    more["most_buckets"] = most
    redis.set(_key(run), orjson.dumps(report | more | {"report": run.place("report-publish.json")}))


def clear_others(redis: Redis, run: Run, filled: Set[int]) -> int:
    """Deletes buckets of an earlier attempt that have no row in this one: a writer replaces only what it has."""
    most = max(run.count("score", "buckets"), _read(redis, run).get("most_buckets", 0))
    others = [bucket for bucket in range(most) if bucket not in filled]
    return unlink(redis, (bucket_key(run.model, run.version, run.generation, bucket) for bucket in others))


def is_published(redis: Redis, run: Run) -> bool:
    """Whether the manifest is that of this run's scores, and no bucket has gone."""
    found = _read(redis, run)
    is_ours = found.get("checksum") == run.need_report("score")["checksum"] and found.get("state") in _WHOLE
    return is_ours and held(redis, _bucket_keys(run)) == run.count("score", "filled_buckets")


def need_verified(redis: Redis, run: Run) -> None:
    """Raises Refused where Redis does not hold the generation as it was verified."""
    found = _read(redis, run)
    if found.get("state") != "verified" or not is_published(redis, run):
        raise Refused(
            f"{run.generation} is not in Redis as it was verified (its manifest says"
            f" {found.get('state', 'nothing')}): run publish, verify and gate again"
        )


def need_loaded(redis: Redis, document: RoutesDocument) -> None:
    """Raises Refused where Redis has lost the generation that the document makes live."""
    live = document.live_generation(document.stable)
    if live and not redis.exists(generation_manifest_key(document.model, document.stable, live.id)):
        raise Refused(f"generation {live.id} of version {document.stable} is no longer in Redis")


def _read(redis: Redis, run: Run) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(redis.get(_key(run)) or b"{}")
    return found


def _key(run: Run) -> str:
    return generation_manifest_key(run.model, run.version, run.generation)


def _bucket_keys(run: Run) -> list[str]:
    buckets = range(run.count("score", "buckets"))
    return [bucket_key(run.model, run.version, run.generation, bucket) for bucket in buckets]

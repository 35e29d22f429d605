"""A generation in Redis beside its report: its manifest, and whether all of its buckets are there.

An attempt is one go at writing it. Its name is in the manifest, so that what a killed job had written is gone on
with, and not where Redis lost it; and so that of two drivers the older stops, once the other writes other scores.
"""

import uuid
from typing import Any, Literal

import orjson
from redis import Redis

from batch_scoring.faults import NotTaken
from batch_scoring.publishing import digests
from batch_scoring.runs import Refused, Run
from batch_scoring.store import held
from schemas.codec import CODEC_VERSION
from schemas.keys import bucket_key, generation_manifest_key
from schemas.routes import RoutesDocument

State = Literal["publishing", "published", "verified", "refused"]
_WHOLE = ("published", "verified")


def write_manifest(redis: Redis, run: Run, state: State, attempt: str | None = None) -> None:
    """Says how far the generation is; being live is said by the routes document only.

    Args:
        attempt: default: the one it has.
    """
    before = _read(redis, run)
    report = {name: run.need_report("score")[name] for name in ("rows", "buckets", "checksum")}
    more: dict[str, object] = {"codec": CODEC_VERSION, "ordinal": run.ordinal, "computed_at_ms": run.started_at_ms}
    more["bundle_digest"] = run.bundle_digest
    more["state"] = state
    more["most_buckets"] = max(run.count("score", "buckets"), before.get("most_buckets", 0))
    more["attempt"] = attempt or before.get("attempt")
    redis.set(_key(run), orjson.dumps(report | more | {"report": run.place("report-publish.json")}))


def begin_attempt(redis: Redis, run: Run) -> str:
    """The name of the attempt to go on with, or of a new one where none of these scores is under way."""
    found = _read(redis, run)
    is_ours = found.get("checksum") == run.need_report("score")["checksum"] and found.get("state") == "publishing"
    attempt = str((is_ours and found.get("attempt")) or uuid.uuid4().hex)
    write_manifest(redis, run, "publishing", attempt)
    return attempt


def need_attempt(redis: Redis, run: Run, attempt: str) -> None:
    """Raises NotTaken where the attempt is no longer the one that Redis has."""
    found = _read(redis, run).get("attempt")
    if found != attempt:
        raise NotTaken(
            f"{run.generation} is being published by another job, or Redis lost it meanwhile (its manifest names"
            f" attempt {found}, this is {attempt}): run publish again"
        )


def most_buckets(redis: Redis, run: Run) -> int:
    """The most that any attempt had: an earlier one, of more rows, may have left some beyond."""
    return max(run.count("score", "buckets"), int(_read(redis, run).get("most_buckets", 0)))


def is_published(redis: Redis, run: Run) -> bool:
    """Whether the manifest is that of this run's scores, and no bucket has gone."""
    found = _read(redis, run)
    is_ours = found.get("checksum") == run.need_report("score")["checksum"] and found.get("state") in _WHOLE
    return is_ours and held_buckets(redis, run) == run.count("score", "filled_buckets")


def held_buckets(redis: Redis, run: Run) -> int:
    """How many of its buckets are in Redis."""
    buckets = range(run.count("score", "buckets"))
    return held(redis, (bucket_key(run.model, run.version, run.generation, bucket) for bucket in buckets))


def need_verified(redis: Redis, run: Run) -> None:
    """Raises Refused where Redis does not hold the generation as it was verified.

    Buckets that have gone are found; what was changed in one, in a large generation, only by sample.
    """
    found = _read(redis, run)
    if found.get("state") != "verified" or not is_published(redis, run):
        raise Refused(
            f"{run.generation} is not in Redis as it was verified (its manifest says"
            f" {found.get('state', 'nothing')}): run publish, verify and gate again"
        )
    digests.need_same(redis, run)


def need_loaded(redis: Redis, document: RoutesDocument) -> None:
    """Raises Refused where Redis has lost the generation that the document makes live."""
    live = document.live_generation(document.stable)
    if live and not redis.exists(generation_manifest_key(document.model, document.stable, live.id)):
        raise Refused(f"generation {live.id} of version {document.stable} is no longer in Redis")


def _read(redis: Redis, run: Run) -> dict[str, Any]:
    try:
        found = orjson.loads(redis.get(_key(run)) or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _key(run: Run) -> str:
    return generation_manifest_key(run.model, run.version, run.generation)

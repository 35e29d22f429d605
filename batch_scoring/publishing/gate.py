"""Whether a verified generation may go live. A refresh only warns, stale being worse; a new version earns it."""

import orjson
from redis import Redis

from batch_scoring.publishing.document import read_document
from batch_scoring.publishing.memory import room
from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, now_ms
from schemas.keys import REPLICAS_KEY

STEP = "gate"


def gate(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Says what was found. Raises Refused where a new version may not replace the one in service."""
    run.need_report("verify")
    with connect(settings) as redis:
        document = read_document(redis, run.model)
        warm = warm_replicas(redis, run, settings)
        memory = room(redis, settings)
    is_refresh = document is not None and document.stable == run.version
    case = "first" if document is None else "refresh" if is_refresh else "new version"
    lacks: list[str] = []
    if not warm:
        lacks.append(f"no replica reports version {run.version} warm: its tail would get 503; load it there")
    if memory.most and memory.left < 0:
        lacks.append(
            f"Redis uses {memory.used:,} of {memory.most:,} bytes, which leaves less than the"
            f" {settings.memory_reserve:.0%} reserved for written-back results: raise maxmemory"
        )
    if lacks and case == "new version":
        raise Refused("; ".join(lacks))
    warnings = list(lacks)
    if run.count("score", "rows") == 0:
        warnings.append("the generation is empty: every answer will be live")
    for warning in warnings:
        LOG.warning("%s %s: %s", run.model, run.generation, warning)
    return {"case": case, "warm_replicas": warm, "warnings": warnings}


def warm_replicas(redis: Redis, run: Run, settings: BatchSettings) -> list[str]:
    """Names of the replicas that said lately that they have this very bundle warm."""
    return replicas_with(redis, (run.model, run.version, run.bundle_digest), settings)


def replicas_with(redis: Redis, wanted: tuple[str, str, str], settings: BatchSettings) -> list[str]:
    """As `warm_replicas`, of a model, version and bundle digest."""
    fresh_ms = now_ms(redis) - settings.replica_max_age_s * 1000
    warm = []
    for name, raw in redis.hgetall(REPLICAS_KEY).items():
        assert isinstance(name, bytes), "the client decodes nothing"
        try:
            replica = orjson.loads(raw)
            has_it = any(
                (one["model"], one["version"], one["digest"], one["state"]) == (*wanted, "ready")
                for one in replica["versions"]
            )
            if has_it and replica["at_ms"] >= fresh_ms:
                warm.append(name.decode("utf-8", "replace"))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            LOG.warning("the report of replica %r cannot be read", name)
    return sorted(warm)

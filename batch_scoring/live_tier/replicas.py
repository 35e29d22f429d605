"""The replicas of the live tier that have announced themselves lately. Imports no HTTP: the gate reads it."""

from pydantic import ValidationError
from redis import Redis

from batch_scoring.runs import LOG, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import now_ms
from schemas.keys import REPLICAS_KEY
from schemas.replicas import Replica, Wanted


def wanted_by(run: Run) -> Wanted:
    return Wanted(run.model, run.version, run.bundle_digest)


def announced_replicas(redis: Redis, settings: BatchSettings) -> list[Replica]:
    """Those that reported lately, by name; a report that cannot be read is left out with a warning."""
    fresh_ms = now_ms(redis) - settings.replica_max_age_s * 1000
    found = []
    for name, raw in redis.hgetall(REPLICAS_KEY).items():
        assert isinstance(name, bytes), "the client decodes nothing"
        try:
            replica = Replica.model_validate_json(raw).model_copy(update={"name": name.decode("utf-8", "replace")})
        except ValidationError as error:
            LOG.warning("the report of replica %r cannot be read: %s", name, error)
            continue
        if replica.at_ms >= fresh_ms:
            found.append(replica)
    return sorted(found, key=lambda replica: replica.name)

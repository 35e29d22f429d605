"""Raw records of entities: from the feature table in Redis, or where that does not give one, from its snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from online.api.answering.snapshot import SnapshotStore
from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import Command, hget
from online.api.routes.view import ModelView
from online.errors import FeaturesUnavailable, ServingError, UnknownEntity
from schemas.codec import CorruptValue
from schemas.feature_table import unpack_record
from schemas.keys import bucket_of, field_of
from schemas.routes import FeatureTable

Record = Mapping[str, object]


@dataclass(slots=True)
class FeatureCounts:
    """Records by where they came from, and those that were not usable. Totals since the start."""

    table: int = 0
    snapshot: int = 0
    corrupt: int = 0


class FeatureSource:
    """One for all models of a worker. `patient` is a link with a longer budget, for when there is no snapshot."""

    def __init__(self, link: RedisLink, patient: RedisLink, snapshots: SnapshotStore) -> None:
        self._link, self._patient, self._snapshots = link, patient, snapshots
        self.counts = FeatureCounts()

    async def records(self, view: ModelView, entities: Sequence[bytes]) -> list[Record | ServingError]:
        """A record or the reason for none, for each entity, in order; one write for all."""
        table = view.features
        if table is None:
            return [UnknownEntity("this model has no feature table: bring features")] * len(entities)
        commands = [
            hget(view.feature_prefix + b"%d" % bucket_of(entity, table.buckets), field_of(entity))
            for entity in entities
        ]
        replies = await _ask(self._link, commands)
        failed = [place for place, reply in enumerate(replies) if isinstance(reply, Exception)]
        if failed and self._snapshots.get(view.document.model, table) is None:
            again = await _ask(self._patient, [commands[place] for place in failed])
            for place, reply in zip(failed, again, strict=True):
                replies[place] = reply
        return [self._record(view, table, *pair) for pair in zip(entities, replies, strict=True)]

    def from_snapshot(self, view: ModelView, entities: Sequence[bytes]) -> Sequence[Record | None]:
        """For the log's sample: no question to Redis. May be called by any thread."""
        snapshot = self._snapshots.get(view.document.model, view.features) if view.features else None
        return snapshot.find(entities) if snapshot else [None] * len(entities)

    def _record(self, view: ModelView, table: FeatureTable, entity: bytes, reply: object) -> Record | ServingError:
        if isinstance(reply, bytes):
            try:
                record = unpack_record(reply, entity, table.features)
            except CorruptValue:
                self.counts.corrupt += 1
            else:
                self.counts.table += 1
                return record
        # Also for what Redis says it has not: one that came back empty says so of every entity.
        snapshot = self._snapshots.get(view.document.model, table)
        if snapshot is None and reply is not None:
            return FeaturesUnavailable("the feature table cannot be read, and there is no snapshot of it")
        found = snapshot.find([entity])[0] if snapshot else None
        if found is None:
            return _unknown()
        self.counts.snapshot += 1
        return found


async def _ask(link: RedisLink, commands: Sequence[Command]) -> list[object]:
    """A reply for each command, or why there is none."""
    try:
        return await link.ask(commands)
    except (RedisDown, RedisSlow) as error:
        return [error] * len(commands)


def _unknown() -> UnknownEntity:
    return UnknownEntity("no features of this entity are known, and the request brings none")

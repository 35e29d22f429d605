"""Nights up to their gate without Spark: scores on disk, buckets in Redis, the real verify, gate and activate."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pydantic import SecretStr
from redis import Redis

from batch_scoring.publishing.activate import activate
from batch_scoring.publishing.document import read_document
from batch_scoring.publishing.gate import gate
from batch_scoring.publishing.publish_job import publish
from batch_scoring.publishing.verify import verify
from batch_scoring.runs import Role, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import now_ms
from schemas.keys import run_key
from schemas.names import generation_name, run_path
from tests.support.publish_small import Small, small_manifest
from tests.support.scored import Here, write_scores

ENTITIES = tuple(f"UA{i}" for i in range(40))
# No model is behind these nights, so that no replica could answer as they do.
AGREED: Mapping[str, object] = {
    "compared": 40,
    "equal": 40,
    "numeric": 0,
    "feature_drift": 0,
    "wrong_model": 0,
    "worst": [],
    "other_bundle": [],
    "skipped": None,
}


@dataclass
class Released:
    """Makes nights of the model `delay` in `redis`, with their files under `folder/data`."""

    folder: Path
    redis_url: str
    redis: "Redis[bytes]"
    entities: Sequence[str] = ENTITIES

    @property
    def settings(self) -> BatchSettings:
        return BatchSettings.model_validate(
            {"redis_url": SecretStr(self.redis_url), "data_url": str(self.folder / "data"), "retire_after_s": 0}
        )

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "BATCH_REDIS_URL": self.redis_url,
            "BATCH_DATA_URL": str(self.folder / "data"),
            "BATCH_RETIRE_AFTER_S": "0",
        }

    def small(self, version: str = "1") -> Small:
        records = {entity: {"distance": 100.0, "edge": 0.0, "airline": "UA"} for entity in self.entities}
        return Small(self.folder, small_manifest(version=version), records, self.entities)

    def scored(self, day: int, minutes: float, version: str = "1", number: int = 1, parts: int = 1) -> Run:
        """A night of November whose answers are so many minutes, with its features, scored and not published."""
        run = self._begin(datetime(2026, 11, day, 2, tzinfo=UTC), version, number)
        outputs = np.tile(np.array([[0.25, minutes]], np.float32), (len(self.entities), 1))
        write_scores(run, self.entities, outputs, parts)
        self._features(run)
        return run

    def publish(self, day: int, minutes: float, version: str = "1", number: int = 1) -> Run:
        """As `scored`, published and not verified."""
        run = self.scored(day, minutes, version, number)
        run.finish("publish", {**publish(run, self.settings, Here()), "needed_bytes": 2_500_000})
        return run

    def gated(self, day: int, minutes: float, version: str = "1", number: int = 1) -> Run:
        """As `publish`, verified and through its gate."""
        run = self.publish(day, minutes, version, number)
        run.finish("verify", {**verify(run, self.settings), "parity": AGREED})
        run.finish("gate", gate(run, self.settings))
        return run

    def active(self, day: int, minutes: float, version: str = "1") -> Run:
        run = self.gated(day, minutes, version)
        run.finish("activate", activate(run, self.settings, run.token))
        return run

    def live(self) -> tuple[str, str | None]:
        document = read_document(self.redis, "delay")
        assert document
        found = document.live_generation(document.stable)
        return document.stable, found.id if found else None

    def _begin(self, as_of: datetime, version: str, number: int) -> Run:
        small, document = self.small(version), read_document(self.redis, "delay")
        generation = generation_name(as_of, number)
        run = Run(
            model="delay",
            version=version,
            bundle_url=small.url,
            bundle_digest=small.digest,
            as_of=as_of,
            generation=generation,
            ordinal=document.next_ordinal if document else 1,
            started_at_ms=now_ms(self.redis),
            run_key=f"night of {as_of:%d}",
            token=int(self.redis.incr(run_key("delay"))),
            role=Role.STABLE if document is None or document.stable == version else Role.NEW,
            url=f"{self.folder / 'data'}/{run_path('delay', generation)}/run.json",
        )
        run.save()
        return run

    def _features(self, run: Run) -> None:
        table = self.small(run.version)._load_table(self.redis, run.generation)
        assert table.snapshot_url
        shutil.copy(table.snapshot_url, run.place("features.arrow"))
        run.finish("features-rows", {"buckets": table.buckets})
        run.finish("features", {"buckets": table.buckets, "features": list(table.features), "loaded": table.rows})

"""Feast's Python feature server on Redis: the entities and one feature of each, written by Feast itself.

One worker without an access log, and not restarted every thousand requests, which is Feast's default.
"""

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig, ValueType
from feast.types import Float32

from tests.bench.hits.entities import ENTITIES, OUTPUT, entity_of, value_of

VIEW, ENTITY = "known", "entity"


def make_store(folder: Path, redis_address: str) -> FeatureStore:
    """`folder` gets the registry and the rows; `redis_address` is host:port."""
    config = RepoConfig(
        project="bench",
        registry=str(folder / "registry.db"),
        provider="local",
        online_store={"type": "redis", "connection_string": redis_address},
        entity_key_serialization_version=3,
    )
    rows = pd.DataFrame(
        {
            ENTITY: [entity_of(number) for number in range(ENTITIES)],
            OUTPUT: pd.Series([value_of(number) for number in range(ENTITIES)], dtype="float32"),
            "event_timestamp": datetime.now(UTC),
        }
    )
    path = folder / "entities.parquet"
    rows.to_parquet(path)
    entity = Entity(name=ENTITY, join_keys=[ENTITY], value_type=ValueType.STRING)
    view = FeatureView(
        name=VIEW,
        entities=[entity],
        ttl=timedelta(0),
        schema=[Field(name=OUTPUT, dtype=Float32)],
        source=FileSource(path=str(path), timestamp_field="event_timestamp"),
    )
    store = FeatureStore(config=config)
    store.apply([entity, view])
    store.write_to_online_store(VIEW, df=rows)
    return store


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--redis", required=True, help="host:port")
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    made = make_store(options.folder, options.redis)
    made.serve(host="127.0.0.1", port=options.port, workers=1, no_access_log=True, max_requests=0)

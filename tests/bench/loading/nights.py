"""Nights of the model whose answers are known, scored by the product, and the route to one of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
from redis import Redis

from schemas.bundle import Bundle
from schemas.codec import CODEC_VERSION
from schemas.keys import routes_key
from schemas.routes import Generation, RoutesDocument, Version
from tests.bench.known import DIGIT
from tests.bench.live.bundles import known_bundle
from tests.bench.scoring.night import Begun, begin, score

_PIPE_PREFIX = b"bench:"


def bundle(folder: Path) -> Bundle:
    return known_bundle(folder)


def columns(numbers: np.ndarray) -> Mapping[str, object]:
    """As `tests.bench.known.features_of`, of many."""
    return {"low": numbers % DIGIT, "high": numbers // DIGIT, "weight": (numbers * 37 % 256) / 16}


def scored(made: Bundle, run_key: str, rows: int) -> Begun:
    """A night up to its score files."""
    begun = begin(made, run_key, rows, columns)
    score(begun)
    return begun


def pairs(begun: Begun) -> Iterator[tuple[bytes, bytes]]:
    """Plain keys with the very values that the score files hold."""
    for batch in ds.dataset(begun.folder / "scores", format="parquet").to_batches(columns=["entity", "packed"]):
        for entity, packed in zip(batch["entity"].to_pylist(), batch["packed"].to_pylist(), strict=True):
            yield _PIPE_PREFIX + entity.encode(), packed


def route(redis_url: str, made: Bundle, begun: Begun) -> None:
    """Makes a published generation live, by the document that the API reads; a table of features is not needed."""
    report = begun.report("publish")
    with Redis.from_url(redis_url) as redis:
        now_ms = 1000 * int(redis.time()[0])
        generation = Generation(
            id=begun.generation,
            ordinal=1,
            buckets=int(str(report["buckets"])),
            codec=CODEC_VERSION,
            rows=int(str(report["rows"])),
            computed_at_ms=now_ms,
        )
        version = Version(
            ordinal=1, bundle_url=str(made.folder), bundle_digest=made.digest, generations=(generation,)
        )
        document = RoutesDocument(
            model=made.manifest.name,
            epoch=1,
            revision=1,
            stable=begun.version,
            versions={begun.version: version},
            next_ordinal=2,
        )
        redis.set(routes_key(made.manifest.name), document.model_dump_json())

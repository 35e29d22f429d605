"""Nights of the model whose answers are known: score files as the score step writes them, and the route to one."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from redis import Redis

from batch_scoring.checksum import add, as_text
from batch_scoring.runs import Role, Run
from batch_scoring.score_files import FOLDER, part_count, part_name, part_of, write_part
from schemas.arrow import SCORES
from schemas.bundle import Bundle
from schemas.codec import CODEC_VERSION, pack_rows
from schemas.keys import bucket_count, routes_key
from schemas.names import generation_name, run_path
from schemas.routes import Generation, RoutesDocument, Version
from tests.bench.known import DIGIT
from tests.bench.live.bundles import known_bundle
from tests.bench.scoring.night import AS_OF, Begun, entity_of

_PIPE_PREFIX = b"bench:"
_STARTED_AT_MS = 1_795_831_200_000
# Small parts of a night that only starts workers, so that each gets one.
_FEW_ROWS = 20_000
_FEW_PARTS = 32


def bundle(folder: Path) -> Bundle:
    return known_bundle(folder)


def scored(made: Bundle, data: Path, number: int, rows: int) -> Begun:
    """The run of that number, with score files of the first `rows` entities, in memory for 12 bytes a row."""
    as_of = datetime.fromisoformat(AS_OF)
    generation = generation_name(as_of, number)
    model, version = made.manifest.name, made.manifest.version
    run = Run(
        model=model,
        version=version,
        bundle_url=str(made.folder),
        bundle_digest=made.digest,
        as_of=as_of,
        generation=generation,
        ordinal=number,
        started_at_ms=_STARTED_AT_MS,
        run_key=generation,
        token=number,
        role=Role.STABLE,
        url=f"{data}/{run_path(model, generation)}/run.json",
    )
    run.save()
    _write_files(run, rows)
    return Begun(run.url, Path(run.url).parent, model, version, generation, rows)


def _write_files(run: Run, rows: int) -> None:
    buckets = bucket_count(rows)
    parts = part_count(rows, buckets) if rows > _FEW_ROWS else _FEW_PARTS
    numbers = np.fromiter((crc32(entity_of(one).encode()) % buckets for one in range(rows)), np.int32, rows)
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(part_of(numbers[order], buckets, parts), range(parts), side="right")
    written, checksum = [], 0
    for place, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        chosen = order[begin:end]
        entities = [entity_of(one) for one in chosen.tolist()]
        raw = [entity.encode() for entity in entities]
        packed = pack_rows(raw, run.ordinal, run.started_at_ms, _outputs(chosen))
        arrays = [pa.array(entities, pa.string()), pa.array(numbers[chosen]), pa.array(packed, pa.binary())]
        part, digest = write_part(run.place(FOLDER), part_name(place), pa.Table.from_arrays(arrays, SCORES.names))
        written.append(part.model_dump())
        checksum = add(checksum, digest)
    report = {"rows": rows, "buckets": buckets, "filled_buckets": len(np.unique(numbers)), "outputs": 2}
    run.finish("score", {**report, "checksum": as_text(checksum), "parts": written})


def _outputs(numbers: np.ndarray) -> np.ndarray:
    """(n, 2) as `tests.bench.known.outputs_of`, of many."""
    weight = (numbers * 37 % 256) / 16
    return np.stack([numbers, weight * weight - numbers % DIGIT], axis=1).astype(np.float32)


def pairs(begun: Begun) -> Iterator[tuple[bytes, bytes]]:
    """Plain keys with the very values that the score files hold."""
    for batch in ds.dataset(begun.folder / "scores", format="parquet").to_batches(columns=["entity", "packed"]):
        for entity, packed in zip(batch["entity"].to_pylist(), batch["packed"].to_pylist(), strict=True):
            yield _PIPE_PREFIX + entity.encode(), packed


def route(redis_url: str, made: Bundle, begun: Begun) -> None:
    """Makes a published generation live, by the document that the API reads; a table of features is not needed."""
    report, ordinal = begun.report("publish"), Run.load(begun.url).ordinal
    with Redis.from_url(redis_url) as redis:
        now_ms = 1000 * int(redis.time()[0])
        generation = Generation(
            id=begun.generation,
            ordinal=ordinal,
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
            next_ordinal=ordinal + 1,
        )
        redis.set(routes_key(made.manifest.name), document.model_dump_json())
